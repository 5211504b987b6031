#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""figures.py [--check]: writes the tables of docs/performance.md between "<!-- figures -->" (or "<!-- other figures -->",
"<!-- cuda figures -->") and "<!-- end -->" anew, from the runs recorded under bench/results, or only tells whether they are
up to date."""
import glob
import json
import math
import re
import sys

PAGE = "docs/performance.md"
GOALS = "bench/goals.txt"
RESULTS = "bench/results"
WORKLOADS = "bench/workloads.txt"
TYPES = ("f32", "f16", "bf16")


class Goals:
    """What is asked of a device's workloads, how many of the fractions that were shown reach it, and why others may not."""

    # What a fraction below its goal is marked with, and what that says of the goal.
    MARKS = {
        "\u2021": "ask for more than the workload's arithmetic or its lines of memory alone allow",
        "\u2020": "for more than both allow one after the other",
        "*": "fall short otherwise",
    }

    def __init__(self, device, folder=RESULTS):
        lines = [line.split() for line in open(GOALS) if line.strip() and not line.startswith("#")]
        self.of = {name: (float(f32), float(half)) for dev, name, f32, half in lines if dev == device}
        self.limits = recorded_limits(folder) if device == "cpu" else {}
        self.elements = elements_of_x()
        self.shown = 0
        self.marked = dict.fromkeys(self.MARKS, 0)

    def show(self, result):
        """Its fraction; marked where it falls short."""
        problem, dtype = result["problem"], result["dtype"]
        goals = self.of.get(problem) or self.of.get(re.sub(r"_\d+$", "", problem))
        text = f"{result['fraction']:.2f}"
        if goals is None:
            return text
        self.shown += 1
        goal = goals[dtype != "f32"]
        if result["fraction"] >= goal:
            return text
        at_most, in_turn = self.allowed(result)
        mark = "\u2021" if goal > at_most else "\u2020" if goal > in_turn else "*"
        self.marked[mark] += 1
        return text + mark

    def allowed(self, result):
        """The fractions that arithmetic and lines of memory allow at most, and in turn: beside the floor of this very run."""
        limit = self.limits.get((result["problem"], result["dtype"], result["threads"]))
        if limit is None:
            return 1, 1
        arithmetic, lines = limit
        floor = result["fraction"] * result["median_ns"] / self.elements[result["problem"]]
        return floor / max(arithmetic, lines * floor), floor / (arithmetic + lines * floor)

    def summary(self):
        reached = self.shown - sum(self.marked.values())
        text = f"{reached} of {self.shown} reach their goal ({GOALS})"
        others = [f"{count} ({mark}) {self.MARKS[mark]}" for mark, count in self.marked.items() if count > 0]
        return text + (f"; of the others {', '.join(others)}." if others else ".")


def recorded_limits(folder):
    """By workload, type and threads: what the arithmetic of an element takes, and the lines of memory, in floors."""
    limits = {}
    for line in open(f"{folder}/cpu-limits.txt"):
        if command := re.match(r"# .*--threads (\d+)", line):
            threads = int(command[1])
        fields = line.split()
        if len(fields) == 8 and fields[1] in TYPES:
            arithmetic, lines, floor = (float(field) for field in fields[3:6])
            limits[fields[0], fields[1], threads] = arithmetic, lines / floor
    return limits


def elements_of_x():
    """By workload."""
    found = re.findall(r"^(\w+): .*--x-shape ([\d,]+)", open(WORKLOADS).read(), flags=re.M)
    return {name: math.prod(int(size) for size in shape.split(",")) for name, shape in found}


def recorded_run(folder):
    """The run that a folder keeps: its records by their number of threads, and their paths."""
    paths = sorted(glob.glob(f"{folder}/cpu-*-threads-*.json"))
    if not paths:
        sys.exit(f"no record of a run under {folder} (scripts/record_bench.sh)")
    records = {int(re.search(r"-threads-(\d+)", path)[1]): json.load(open(path)) for path in paths}
    if len({record["commit"] for record in records.values()}) != 1:
        sys.exit(f"{folder} has records of several runs: keep one")
    return dict(sorted(records.items())), paths


def table(records, goals, only_short=False):
    """All rows, or those with a fraction that falls short."""
    rows = {}
    for threads, record in records.items():
        for result in record["results"]:
            if not result["verified"]:
                sys.exit(f"{result['problem']}: not verified")
            key = (result["problem"], result["layout"] or "")
            rows.setdefault(key, {"sense": result["sense"]})[threads, result["dtype"]] = result
    most = max(records)
    yield "| workload | layout | sense | " + " | ".join(f"{t} of floor" for t in TYPES) + " | f32 x best peer |"
    yield "| --- " * (len(TYPES) + 4) + "|"
    for (problem, layout), row in rows.items():
        fractions = []
        for dtype in TYPES:
            found = [row[threads, dtype] for threads in records if (threads, dtype) in row]
            fractions.append(" / ".join(goals.show(result) for result in found))
        result = row.get((most, "f32"))
        times = best_peer(result) if result else ""
        if not only_short or any(mark in cell for cell in fractions for mark in Goals.MARKS):
            yield f"| {problem} | {layout} | {row['sense']} | " + " | ".join(fractions) + f" | {times} |"


def best_peer(result):
    peers = [p for p in result["peers"] if p.get("median_ns") and p["agrees"]]
    if not peers:
        return ""
    best = min(peers, key=lambda p: p["median_ns"])
    ratio = best["median_ns"] / result["median_ns"]
    return f"{ratio:.{1 if ratio >= 1.2 else 2}f} ({best['name'].split()[0]})"


def cuda_figures():
    """Of the records of a CUDA device, which may be of several runs, one for some types each."""
    paths = sorted(glob.glob("bench/results/cuda-*.json"))
    if not paths:
        yield "No run is recorded yet (scripts/record_cuda.sh)."
        return
    rows, sources = {}, {}
    for path in paths:  # the newest last: its rows count
        record = json.load(open(path))
        machine = record["machine"]
        for result in record["results"]:
            if not result["verified"]:
                sys.exit(f"{path}: {result['problem']}: not verified")
            key = result["problem"], result["layout"] or ""
            rows.setdefault(key, {})[result["dtype"]] = result
            sources[*key, result["dtype"]] = f"{path} (commit {record['commit']}, {machine['device']}, {machine['driver']})"
    goals = Goals("cuda")
    types = [t for t in TYPES if any(t in row for row in rows.values())]
    yield "Fractions of the bandwidth of a copy within the device's memory, from " + ", ".join(sorted(set(sources.values()))) + "."
    yield ""
    yield "| workload | layout | kernel | " + " | ".join(f"{t} of copy | {t} x best peer" for t in types) + " |"
    yield "| --- " * (3 + 2 * len(types)) + "|"
    for (problem, layout), row in rows.items():
        kernels = sorted({result["implementation"] for result in row.values()})
        cells = [problem, layout, " ".join(kernels)]
        for t in types:
            cells += [goals.show(row[t]), best_peer(row[t])] if t in row else ["", ""]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield goals.summary()


def cpu_figures(folder=RESULTS, only_short=False):
    records, paths = recorded_run(folder)
    first = next(iter(records.values()))
    machine = first["machine"]
    yield (
        f"Fractions of the floor with {' / '.join(str(t) for t in records)} threads, from {' and '.join(paths)}: "
        f"{machine['cpu']}, {machine['cores']} cores, last-level cache {machine['last_level_cache'] >> 20} MiB, "
        f"{machine['compiler']}, commit {first['commit']}{'; the rows that fall short' if only_short else ''}."
    )
    yield ""
    goals = Goals("cpu", folder)
    yield from table(records, goals, only_short)
    yield ""
    yield goals.summary()


def other_figures():
    """Of other processors, which have a folder each."""
    for folder in sorted(glob.glob(f"{RESULTS}/*/")):
        yield from cpu_figures(folder.rstrip("/"), only_short=True)


def main():
    page = new = open(PAGE, encoding="utf-8").read()
    sections = (("figures", cpu_figures()), ("other figures", other_figures()), ("cuda figures", cuda_figures()))
    for name, lines in sections:
        text = "\n".join(lines)
        new = re.sub(f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + text + "\n" + m[2], new, flags=re.S)
    if new == page:
        return
    if "--check" in sys.argv:
        sys.exit(f"{PAGE}: the figures are not those of the recorded runs (make docs)")
    open(PAGE, "w", encoding="utf-8").write(new)
    print(f"{PAGE}: rewritten")


main()
