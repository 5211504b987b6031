// SPDX-License-Identifier: Apache-2.0
// The bench's results as a table, as JSON and as a plot.
#include "harness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace bench {

namespace {

std::string human_time(double ns) {
  if (ns < 1e4) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e7) return fmt::format("{:.1f} us", ns / 1e3);
  return fmt::format("{:.1f} ms", ns / 1e6);
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

std::string json_timing(const Timing& t) {
  return fmt::format(R"({{"median_ns": {:.0f}, "spread": {:.3f}, "floor_ns": {:.0f}, "repetitions": {}}})", t.median_ns,
                     t.spread, t.floor_ns, t.repetitions);
}

std::string json_result(const Result& r) {
  std::vector<std::string> peers;
  for (const Peer& peer : r.peers) {
    peers.push_back(fmt::format(R"({{"name": {}, "median_ns": {:.0f}, "agrees": {}}})", json_string(peer.name),
                                peer.median_ns, peer.agrees));
  }
  return fmt::format(
      R"({{"operator": {}, "problem": {}, "dtype": {}, "layout": {}, "device": {}, "implementation": {}, "threads": {}, )"
      R"("median_ns": {:.0f}, "spread": {:.3f}, "bytes": {}, "gb_per_s": {:.3f}, "fraction": {:.4f}, "verified": {}, )"
      R"("sense": {}, "hot": {}, "cold": {}, "peers": [{}]}})",
      json_string(r.op), json_string(r.problem), json_string(r.dtype), json_string(r.layout), json_string(r.device),
      json_string(r.implementation), r.threads, r.timing().median_ns, r.timing().spread, r.bytes, r.gb_per_s(),
      r.fraction(), r.verified, json_string(r.judged_hot ? "hot" : "cold"), r.hot ? json_timing(*r.hot) : "null",
      json_timing(r.cold), fmt::join(peers, ", "));
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string table_head() {
  return fmt::format("{:<14} {:<28} {:<5} {:<6} {:<14} {:>2} {:<4} {:>10} {:>6} {:>8} {:>8}\n", "operator", "problem",
                     "type", "layout", "implementation", "th", "", "median", "spread", "GB/s", "of floor");
}

std::string table_row(const Result& r) {
  const std::string head = fmt::format("{:<14} {:<28} {:<5} {:<6} {:<14} {:>2} ", r.op, r.problem, r.dtype, r.layout,
                                       r.implementation, r.threads);
  if (!r.verified) return head + fmt::format("DIFFERS: {}\n", r.difference);
  return head + fmt::format("{:<4} {:>10} {:>5.0f}% {:>8.2f} {:>8.3f}\n", r.judged_hot ? "hot" : "cold",
                            human_time(r.timing().median_ns), 100 * r.timing().spread, r.gb_per_s(), r.fraction());
}

std::string to_json(const Machine& m, const CopyLimits& limits, const std::string& commit,
                    const std::vector<Result>& results) {
  std::vector<std::string> rows;
  for (const Result& r : results) rows.push_back("    " + json_result(r));
  return fmt::format(
      "{{\n"
      R"(  "machine": {{"cpu": {}, "cores": {}, "last_level_cache": {}, "system": {}, "compiler": {}}},)"
      "\n"
      R"(  "commit": {},)"
      "\n"
      R"(  "limits": {{"copy_gb_per_s": {:.2f}, "copy_ordinary_stores_gb_per_s": {:.2f}, "copy_non_temporal_stores_gb_per_s": {:.2f}}},)"
      "\n"
      "  \"results\": [\n{}\n  ]\n}}\n",
      json_string(m.cpu), m.cores, m.last_level_cache, json_string(m.system), json_string(m.compiler),
      json_string(commit), std::max(limits.ordinary_gb_per_s, limits.non_temporal_gb_per_s), limits.ordinary_gb_per_s,
      limits.non_temporal_gb_per_s, fmt::join(rows, ",\n"));
}

// Horizontal bars: the fraction of the floor that each workload reaches, on a scale that shows a hundredth too.
std::string to_svg(const Machine& m, const std::string& commit, const std::vector<Result>& results) {
  constexpr int kRow = 18, kTop = 64, kLabels = 400, kBars = 420;
  std::vector<const Result*> shown;
  for (const Result& r : results) {
    if (r.verified) shown.push_back(&r);
  }
  const int height = kTop + kRow * static_cast<int>(shown.size()) + 16;
  constexpr double kLeast = 0.001;
  const auto x_of = [&](double fraction) {
    const double clamped = std::clamp(fraction, kLeast, 1.0);
    return kLabels + kBars * (1 - std::log10(clamped) / std::log10(kLeast));
  };
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="12">)"
      "\n"
      R"(<rect width="{0}" height="{1}" fill="white"/>)"
      "\n"
      R"(<text x="12" y="20" font-size="15" font-weight="bold">Fraction of the floor (the time only to move the bytes)</text>)"
      "\n"
      R"(<text x="12" y="38" fill="#555">{2}, {3} cores; commit {4}; logarithmic scale; orange: in cache (hot), blue: from memory (cold)</text>)"
      "\n",
      kLabels + kBars + 70, height, xml_text(m.cpu), m.cores, xml_text(commit));
  for (const double mark : {0.001, 0.01, 0.1, 0.5, 1.0}) {
    svg += fmt::format(
        R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="#ddd"/><text x="{0:.1f}" y="{3}" text-anchor="middle" fill="#555">{4}</text>)"
        "\n",
        x_of(mark), kTop - 4, height - 12, kTop - 8, mark);
  }
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Result& r = *shown[i];
    const int y = kTop + kRow * static_cast<int>(i);
    svg += fmt::format(
        R"(<text x="{0}" y="{1}" text-anchor="end">{2}</text><rect x="{3}" y="{4}" width="{5:.1f}" height="{6}" fill="{7}"/><text x="{8:.1f}" y="{1}" fill="#333">{9:.3f}</text>)"
        "\n",
        kLabels - 8, y + 13, xml_text(fmt::format("{} {} {} {}", r.op, r.problem, r.dtype, r.layout)), kLabels, y + 2,
        x_of(r.fraction()) - kLabels, kRow - 4, r.judged_hot ? "#d9822b" : "#2b6cb0", x_of(r.fraction()) + 4,
        r.fraction());
  }
  return svg + "</svg>\n";
}

}  // namespace bench
