// SPDX-License-Identifier: Apache-2.0
// The bench's results as tables and as JSON.
#include "harness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace bench {

namespace {

std::string human_time(double ns) {
  if (ns < 1e4) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e7) return fmt::format("{:.1f} us", ns / 1e3);
  return fmt::format("{:.1f} ms", ns / 1e6);
}

std::string human_size(std::uint64_t bytes) {
  if (bytes < std::uint64_t{1} << 20) return fmt::format("{} KiB", bytes >> 10);
  if (bytes < std::uint64_t{1} << 30) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} GiB", bytes >> 30);
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string json_timing(const std::optional<Timing>& t) {
  if (!t) return "null";
  return fmt::format(R"({{"median_ns": {:.0f}, "spread": {:.3f}, "floor_ns": {:.0f}, "repetitions": {}}})",
                     t->median_ns, t->spread, t->floor_ns, t->repetitions);
}

std::string json_result(const Result& r) {
  std::vector<std::string> peers;
  for (const PeerResult& peer : r.peers) {
    peers.push_back(fmt::format(R"({{"name": {}, "median_ns": {:.0f}, "agrees": {}}})", json_string(peer.name),
                                peer.median_ns, peer.agrees));
  }
  return fmt::format(
      R"({{"operator": {}, "problem": {}, "dtype": {}, "layout": {}, "device": {}, "implementation": {}, "threads": {}, )"
      R"("median_ns": {:.0f}, "spread": {:.3f}, "bytes": {}, "gb_per_s": {:.3f}, "fraction": {:.4f}, "verified": {}, )"
      R"("sense": {}, "hot": {}, "cold": {}, "peers": [{}]}})",
      json_string(r.op), json_string(r.problem), json_string(r.dtype), json_string(r.layout), json_string(r.device),
      json_string(r.implementation), r.threads, r.timing().median_ns, r.timing().spread, r.bytes, r.gb_per_s(),
      r.fraction(), r.verified, json_string(r.judged_hot ? "hot" : "cold"), json_timing(r.hot), json_timing(r.cold),
      fmt::join(peers, ", "));
}

}  // namespace

// ---- Tables ----------------------------------------------------------------------------------------------

std::string table_head() {
  return fmt::format("{:<14} {:<28} {:<5} {:<6} {:<14} {:>2} {:<4} {:>10} {:>6} {:>8} {:>8} {:>11}\n", "operator",
                     "problem", "type", "layout", "implementation", "th", "", "median", "spread", "GB/s", "of floor",
                     "x best peer");
}

std::string table_row(const Result& r) {
  const std::string head = fmt::format("{:<14} {:<28} {:<5} {:<6} {:<14} {:>2} ", r.op, r.problem, r.dtype, r.layout,
                                       r.implementation, r.threads);
  if (!r.verified) return head + fmt::format("DIFFERS: {}\n", r.difference);
  std::string row =
      head + fmt::format("{:<4} {:>10} {:>5.0f}% {:>8.2f} {:>8.3f}", r.judged_hot ? "hot" : "cold",
                         human_time(r.timing().median_ns), 100 * r.timing().spread, r.gb_per_s(), r.fraction());
  if (r.best_peer() != nullptr) row += fmt::format(" {:>11.2f} {}", r.times_best_peer(), r.best_peer()->short_name());
  for (const PeerResult& peer : r.peers) {
    if (!peer.agrees) row += fmt::format(" ({} differs)", peer.short_name());
  }
  return row + '\n';
}

std::string sizes_table(const std::vector<SizedResults>& sizes) {
  std::string table = fmt::format("{:<14}", "ns for a KiB");
  for (const SizedResults& size : sizes) table += fmt::format(" {:>8}", human_size(size.bytes));
  table += '\n';
  for (std::size_t i = 0; i < sizes.front().results.size(); ++i) {
    table += fmt::format("{:<14}", sizes.front().results[i].op);
    for (const SizedResults& size : sizes) {
      const Result& r = size.results[i];
      const double kib = static_cast<double>(r.bytes) / 1024;
      table += r.verified ? fmt::format(" {:>8.1f}", r.timing().median_ns / kib) : fmt::format(" {:>8}", "DIFFERS");
    }
    table += '\n';
  }
  return table;
}

std::string calls_table(const std::vector<SizedResults>& sizes) {
  std::vector<std::string> names;
  for (const SizedResults& size : sizes) {
    for (const Result& r : size.results) {
      for (const PeerResult& peer : r.peers) {
        if (std::find(names.begin(), names.end(), peer.name) == names.end()) names.push_back(peer.name);
      }
    }
  }
  std::string table = fmt::format("{:<14} {:>8} {:>14}", "one call", "", "backpass");
  for (const std::string& name : names) table += fmt::format(" {:>14}", name);
  table += '\n';
  for (const SizedResults& size : sizes) {
    for (const Result& r : size.results) {
      table += fmt::format("{:<14} {:>8} {:>14}", r.op, human_size(size.bytes),
                           r.verified ? human_time(r.timing().median_ns) : "DIFFERS");
      for (const std::string& name : names) {
        const auto peer =
            std::find_if(r.peers.begin(), r.peers.end(), [&](const PeerResult& p) { return p.name == name; });
        table += fmt::format(" {:>14}", peer == r.peers.end() ? "-" : human_time(peer->median_ns));
      }
      table += '\n';
    }
  }
  return table;
}

std::string planes_head(int threads) {
  return fmt::format("{:<24} {:<14} {:>10} {:>10} {:>6} {:>9}\n", "one plane", "implementation", "1 thread",
                     fmt::format("{} threads", threads), "gain", "floor's");
}

std::string planes_row(const OneAndAll& results) {
  const auto& [one, all] = results;
  const std::string head = fmt::format("{:<24} {:<14} ", all.problem, all.implementation);
  for (const Result* r : {&one, &all}) {
    if (!r->verified) return head + fmt::format("DIFFERS: {}\n", r->difference);
  }
  return head + fmt::format("{:>10} {:>10} {:>6.2f} {:>9.2f}\n", human_time(one.timing().median_ns),
                            human_time(all.timing().median_ns), one.timing().median_ns / all.timing().median_ns,
                            one.timing().floor_ns / all.timing().floor_ns);
}

std::string strides_head() {
  return fmt::format("{:<24} {:<14} {:<14} {:>10} {:>10} {:>6}\n", "other strides", "", "implementation", "direct",
                     "by copies", "gain");
}

std::string strides_row(const Result& r) {
  const std::string head = fmt::format("{:<24} {:<14} {:<14} ", r.problem, r.layout, r.implementation);
  if (!r.verified) return head + fmt::format("DIFFERS: {}\n", r.difference);
  return head + fmt::format("{:>10} {:>10} {:>6.2f}\n", human_time(r.timing().median_ns),
                            human_time(r.peers.front().median_ns), r.times_best_peer());
}

std::string limits_table(const Limits& limits) {
  std::string table = fmt::format("{:<48} {:>8}\n", "one step of one element", "ns");
  for (const StepLimit& step : limits.steps) table += fmt::format("{:<48} {:>8.4f}\n", step.name, step.ns);
  table += fmt::format("\n{:<26} {:<5} {:<5} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "ns for an element", "type",
                       "sense", "arithmetic", "lines", "floor", "at most", "in turn");
  for (const WorkloadLimit& w : limits.workloads) {
    table += fmt::format("{:<26} {:<5} {:<5} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.2f} {:>10.2f}\n", w.name, w.dtype,
                         w.hot ? "hot" : "cold", w.arithmetic_ns, w.lines_ns, w.floor_ns, w.at_most(), w.in_turn());
  }
  return table;
}

// ---- JSON ------------------------------------------------------------------------------------------------

namespace {

std::string json_device(const std::optional<DeviceLimits>& device) {
  if (!device) return "";
  return fmt::format(R"(, "device": {}, "driver": {}, "device_memory": {}, "device_cache": {})",
                     json_string(device->facts.name), json_string(device->facts.driver), device->facts.memory,
                     device->facts.cache);
}

// What `fraction` is of: the copy within the device's memory, or the CPU's floor, beside which its copies are told.
std::string json_limits(const Run& run) {
  if (run.device) return fmt::format(R"({{"copy_gb_per_s": {:.2f}}})", run.device->copy_gb_per_s);
  const CopyLimits& limits = run.limits;
  return fmt::format(
      R"({{"threads": {}, "copy_gb_per_s": {:.2f}, "copy_ordinary_stores_gb_per_s": {:.2f}, "copy_non_temporal_stores_gb_per_s": {:.2f}}})",
      limits.threads, std::max(limits.ordinary_gb_per_s, limits.non_temporal_gb_per_s), limits.ordinary_gb_per_s,
      limits.non_temporal_gb_per_s);
}

}  // namespace

std::string to_json(const Run& run, const std::vector<Result>& results) {
  std::vector<std::string> rows;
  for (const Result& r : results) rows.push_back("    " + json_result(r));
  const Machine& m = run.machine;
  return fmt::format(
      "{{\n"
      R"(  "machine": {{"cpu": {}, "cores": {}, "last_level_cache": {}, "system": {}, "compiler": {}{}}},)"
      "\n"
      R"(  "commit": {},)"
      "\n"
      R"(  "limits": {},)"
      "\n"
      "  \"results\": [\n{}\n  ]\n}}\n",
      json_string(m.cpu), m.cores, m.last_level_cache, json_string(m.system), json_string(m.compiler),
      json_device(run.device), json_string(run.commit), json_limits(run), fmt::join(rows, ",\n"));
}

}  // namespace bench
