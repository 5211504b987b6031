# SPDX-License-Identifier: Apache-2.0
"""PyTorch in the race: peers.h has the protocol.

Outputs are written where they are wanted (`out=`, `grad_input=`), wherever PyTorch can. Where it has several ways to
compute a thing, each is tried and the fastest one runs. With the argument `compile`, what torch.compile makes of them; with
`graph`, on a CUDA device, the calls out of a graph.
"""

import gc
import mmap
import os
import sys
import time

import torch

aten = torch.ops.aten
DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
}


class Absent(Exception):
    """What PyTorch does not have."""


def numbers(text):
    return [int(part) for part in text.split(",")]


def strides_of(shape, layout):
    """Of a packed tensor whose channels are second, or last."""
    order = list(range(len(shape)))
    if layout == "nhwc":
        order.append(order.pop(1))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return strides


class Problem:
    def __init__(self, words, compiles):
        self.compiles = compiles  # then functions give new tensors: that is what a compiler takes
        self.values = dict(word.split("=", 1) for word in words)
        self.op = self.values["op"]
        self.sets = int(self.values["sets"])
        self.on_cuda = self.values.get("device") == "cuda"
        if self.values["dtype"] not in DTYPES:
            raise Absent("no such type")
        self.dtype = DTYPES[self.values["dtype"]]

    def numbers(self, key):
        return numbers(self.values[key])

    def tensors(self, name):
        """The tensor of that name in each of the bench's sets of buffers, or in as many on the device."""
        files = self.files(name)
        return [t.to("cuda", copy=True) for t in files] if self.on_cuda else files

    def files(self, name):
        shape = self.numbers("y_shape" if name in ("y", "dy") else "x_shape")
        strides = strides_of(shape, self.values["layout"])
        result = []
        for path in self.values[name].split(","):
            with open(path, "r+b") as file:
                memory = mmap.mmap(file.fileno(), 0)
            result.append(torch.frombuffer(memory, dtype=self.dtype).as_strided(shape, strides))
        return [result[i % len(result)] for i in range(self.sets)]


# ---- The operators: each gives its ways, and a way is a list of calls, one for each set ---------------------------


def relu(p):
    if p.compiles:
        yield [lambda x=x: torch.relu(x) for x in p.tensors("x")]
        return
    pairs = list(zip(p.tensors("x"), p.tensors("y")))
    yield [lambda x=x, y=y: torch.clamp_min(x, 0, out=y) for x, y in pairs]
    yield [lambda x=x, y=y: aten.threshold.out(x, 0, 0, out=y) for x, y in pairs]


def relu_grad(p):
    if p.compiles:
        pairs = zip(p.tensors("x"), p.tensors("dy"))
        yield [lambda x=x, dy=dy: aten.threshold_backward.default(dy, x, 0) for x, dy in pairs]
        return
    triples = zip(p.tensors("x"), p.tensors("dy"), p.tensors("dx"))
    backward = aten.threshold_backward.grad_input
    yield [lambda x=x, dy=dy, dx=dx: backward(dy, x, 0, grad_input=dx) for x, dy, dx in triples]


def pooling_arguments(p):
    """Window, strides, padding, dilation and ceil mode, where PyTorch's give the output size that is wanted."""
    window, strides, dilations = p.numbers("window"), p.numbers("strides"), p.numbers("dilations")
    padding = p.numbers("start_padding")
    for ceil_mode in (False, True):
        sizes = []
        for n, w, s, q, d in zip(p.numbers("x_shape")[2:], window, strides, padding, dilations):
            reach = n + 2 * q - d * (w - 1) - 1
            size = (reach + (s - 1 if ceil_mode else 0)) // s + 1
            if ceil_mode and (size - 1) * s >= n + q:
                size -= 1
            sizes.append(size)
        if sizes == p.numbers("y_shape")[2:]:
            return [window, strides, padding, dilations, ceil_mode]
    raise Absent("no such padding")


def pooling_operators(p):
    """With what turns a tensor of the problem into one that they take: 1-D is 2-D of height 1."""
    arguments = pooling_arguments(p)
    if len(arguments[0]) == 1:
        arguments = [[neutral] + values for neutral, values in zip((1, 1, 0, 1), arguments)] + arguments[-1:]
        return aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, arguments, lambda t: t.unsqueeze(2)
    if len(arguments[0]) == 2:
        return aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward, arguments, lambda t: t
    return aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward, arguments, lambda t: t


def max_pool(p):
    forward, _, arguments, view = pooling_operators(p)
    if p.compiles:
        yield [lambda x=view(x): forward.default(x, *arguments) for x in p.tensors("x")]
        return
    pairs = [(view(x), view(y)) for x, y in zip(p.tensors("x"), p.tensors("y"))]
    indices = [torch.empty_like(y, dtype=torch.int64) for _, y in pairs]
    yield [lambda x=x, y=y, i=i: forward.out(x, *arguments, out=y, indices=i) for (x, y), i in zip(pairs, indices)]


def max_pool_grad(p):
    forward, backward, arguments, view = pooling_operators(p)
    triples = [tuple(map(view, t)) for t in zip(p.tensors("x"), p.tensors("dy"), p.tensors("dx"))]
    indices = [forward.default(x, *arguments)[1] for x, _, _ in triples]
    if p.compiles:
        yield [
            lambda x=x, dy=dy, i=i: backward.default(dy, x, *arguments, i) for (x, dy, _), i in zip(triples, indices)
        ]
        return
    yield [
        lambda x=x, dy=dy, dx=dx, i=i: backward.grad_input(dy, x, *arguments, i, grad_input=dx)
        for (x, dy, dx), i in zip(triples, indices)
    ]


def resample_operators(p):
    """Names of those that compute it, and their further arguments."""
    x_shape, y_shape = p.numbers("x_shape"), p.numbers("y_shape")
    spatial = len(x_shape) - 2
    if spatial not in (1, 2, 3) or x_shape[:2] != y_shape[:2]:
        raise Absent("no such axes")
    convention, rounding = p.values["convention"], p.values["rounding"]
    if p.values["mode"] == "linear":
        if convention not in ("half-pixel", "align-corners"):
            raise Absent("no such convention")
        name = "upsample_" + ("linear1d", "bilinear2d", "trilinear3d")[spatial - 1]
        return [name], [convention == "align-corners"]
    exact, plain = f"_upsample_nearest_exact{spatial}d", f"upsample_nearest{spatial}d"
    if (convention, rounding) == ("half-pixel", "half-up"):
        # Up by whole factors the two are the same.
        return [exact, plain] if all(y % x == 0 for x, y in zip(x_shape, y_shape)) else [exact], []
    if (convention, rounding) == ("asymmetric", "decreasing"):
        return [plain], []
    raise Absent("no such convention")


def resample(p):
    names, extra = resample_operators(p)
    size = p.numbers("y_shape")[2:]
    if p.compiles:
        forward = getattr(aten, names[0]).default
        yield [lambda x=x: forward(x, size, *extra) for x in p.tensors("x")]
        return
    pairs = list(zip(p.tensors("x"), p.tensors("y")))
    for name in names:
        forward = getattr(aten, name).out
        yield [lambda x=x, y=y, f=forward: f(x, size, *extra, out=y) for x, y in pairs]


def resample_grad(p):
    names, extra = resample_operators(p)
    size, shape = p.numbers("y_shape")[2:], p.numbers("x_shape")
    if p.compiles:
        backward = getattr(aten, names[0] + "_backward").default
        yield [lambda dy=dy: backward(dy, size, shape, *extra) for dy in p.tensors("dy")]
        return
    pairs = list(zip(p.tensors("dy"), p.tensors("dx")))
    for name in names:
        backward = getattr(aten, name + "_backward").grad_input
        yield [lambda dy=dy, dx=dx, b=backward: b(dy, size, shape, *extra, grad_input=dx) for dy, dx in pairs]


def slice_index(p):
    """The ascending Python slices of the elements, and the axes along which they are then in reverse."""
    index, reversed_axes = [], []
    for axis, (n, offset, size, stride) in enumerate(
        zip(p.numbers("y_shape"), p.numbers("offsets"), p.numbers("sizes"), p.numbers("strides"))
    ):
        first = offset if stride > 0 else offset + size - 1 + stride * (n - 1)
        index.append(slice(first, first + abs(stride) * (n - 1) + 1, abs(stride)))
        if stride < 0:
            reversed_axes.append(axis)
    return tuple(index), reversed_axes


def slice_forward(p):
    index, reversed_axes = slice_index(p)
    if p.compiles:
        yield [lambda x=x: torch.flip(x[index], reversed_axes) if reversed_axes else x[index].clone() for x in p.tensors("x")]
        return
    pairs = [(x[index], y) for x, y in zip(p.tensors("x"), p.tensors("y"))]
    if reversed_axes:
        yield [lambda x=x: torch.flip(x, reversed_axes) for x, _ in pairs]
    else:
        yield [lambda x=x, y=y: y.copy_(x) for x, y in pairs]


def slice_grad(p):
    index, reversed_axes = slice_index(p)
    shape = p.numbers("x_shape")
    if p.compiles:

        def zeros_with(dy):
            dx = dy.new_zeros(shape)
            dx[index] = torch.flip(dy, reversed_axes) if reversed_axes else dy
            return dx

        yield [lambda dy=dy: zeros_with(dy) for dy in p.tensors("dy")]
        return
    pairs = list(zip(p.tensors("dy"), p.tensors("dx")))

    def zero_and_copy(dy, dx):
        dx.zero_()
        dx[index].copy_(torch.flip(dy, reversed_axes) if reversed_axes else dy)
        return dx

    yield [lambda dy=dy, dx=dx: zero_and_copy(dy, dx) for dy, dx in pairs]
    changed = [axis for axis, part in enumerate(index) if part != slice(0, shape[axis], 1)]
    if reversed_axes and not changed:
        yield [lambda dy=dy: torch.flip(dy, reversed_axes) for dy, _ in pairs]
    if not reversed_axes and len(changed) == 1:
        axis = changed[0]
        part = index[axis]
        arguments = (shape, axis, part.start, part.stop, part.step)
        yield [lambda dy=dy: aten.slice_backward.default(dy, *arguments) for dy, _ in pairs]
    if not reversed_axes and all(part.step == 1 for part in index):
        padding = []
        for n, part in reversed(list(zip(shape, index))):
            padding += [part.start, n - part.stop]
        yield [lambda dy=dy: aten.constant_pad_nd.default(dy, padding) for dy, _ in pairs]


OPERATORS = {
    "relu": relu, "relu-grad": relu_grad, "max-pool": max_pool, "max-pool-grad": max_pool_grad,
    "resample": resample, "resample-grad": resample_grad, "slice": slice_forward, "slice-grad": slice_grad,
}

# ---- Answers ------------------------------------------------------------------------------------------------------


def timed(calls, first, count):
    """Nanoseconds of so many calls, and what the last one gave."""
    last = None
    start = time.perf_counter_ns()
    for i in range(first, first + count):
        last = calls[i % len(calls)]()
    return time.perf_counter_ns() - start, last


def timed_on_cuda(calls, first, count):
    """The same by the device's clock."""
    last = None
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for i in range(first, first + count):
        last = calls[i % len(calls)]()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e6, last


def fastest(ways, clock):
    ways = list(ways)
    if len(ways) == 1:
        clock(ways[0], 0, 1)  # refuses what it does not have
        return ways[0]
    times = [min(clock(calls, 0, 1)[0] for _ in range(5)) for calls in ways]
    return ways[times.index(min(times))]


def compiled(ways):
    """A function of each way, compiled once; the calls hand it the tensors that they hold."""
    for calls in ways:
        torch.compiler.reset()
        function = torch.compile(lambda call: call(), dynamic=False)
        yield [lambda call=call: function(call) for call in calls]


SHORT_CALLS = 10  # on a device so many are timed at once: what a launch costs the host is hidden behind the one before it


def in_graph(calls):
    """One call that launches SHORT_CALLS of them out of a graph."""
    for call in calls[:SHORT_CALLS]:
        call()  # whatever is only done once
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        last = [calls[i % len(calls)]() for i in range(SHORT_CALLS)][-1]

    def replay():
        graph.replay()
        return last

    return [replay]


class Task:
    def __init__(self, words, operators, mode):
        problem = Problem(words, mode == "compile")
        if problem.op not in operators:
            raise Absent("no such operator")
        self.on_cuda = problem.on_cuda
        self.clock = timed_on_cuda if self.on_cuda else timed
        ways = operators[problem.op](problem)
        self.calls = fastest(compiled(ways) if mode == "compile" else ways, self.clock)
        self.calls_in_one = SHORT_CALLS if mode == "graph" else 1
        if mode == "graph":
            self.calls = in_graph(self.calls)
        self.outputs = problem.files("y" if "y" in problem.values else "dx")
        self.last = None

    def run(self, first, untimed, count):
        self.clock(self.calls, first, untimed)
        times = SHORT_CALLS if self.on_cuda and untimed > 0 and self.calls_in_one == 1 else 1
        nanoseconds, self.last = self.clock(self.calls, first + untimed, count * times)
        if not self.on_cuda:
            self.show((first + untimed + count - 1) % len(self.outputs))
        return nanoseconds / times / self.calls_in_one

    def show(self, which=0):
        """The last output where the bench looks for it."""
        output = self.outputs[which]
        last = self.last[0] if isinstance(self.last, (tuple, list)) else self.last
        if isinstance(last, torch.Tensor) and last.data_ptr() != output.data_ptr():
            # From the device, or from a way that cannot be told where to write; 1-D may be 2-D of height 1 there.
            output.copy_(last.reshape(output.shape))


def answer(line, state, operators, mode):
    verb, *words = line.split()
    if verb == "prepare":
        try:
            state["task"] = Task(words, operators, mode)
        except (Absent, RuntimeError, NotImplementedError) as error:
            return "absent " + " ".join(str(error).split())
        return "ready"
    if verb == "run":
        return str(state["task"].run(*map(int, words)))
    if verb == "show":
        state["task"].show()
        return "shown"
    state.clear()
    gc.collect()
    return "released"


def serve(name, operators, mode=""):
    gc.disable()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(name, flush=True)
    state = {}
    with torch.no_grad() if mode == "compile" else torch.inference_mode():
        for line in sys.stdin:
            print(answer(line, state, operators, mode), flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    name = {"": "PyTorch", "compile": "torch.compile", "graph": "PyTorch-graph"}[chosen]
    serve(f"{name} {torch.__version__.split('+')[0]}", OPERATORS, chosen)
