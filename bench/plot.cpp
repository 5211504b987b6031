// SPDX-License-Identifier: Apache-2.0
// The bench's results as a picture: a bar for the fraction of the floor, beside it how many times faster than the best
// peer.
#include "harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace bench {

namespace {

constexpr int kRow = 18, kTop = 74, kLabels = 270, kBars = 460, kNumbers = 170, kBottom = 12;
constexpr double kMost = 1.0;  // what is faster than the floor ends there too; the number tells

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

double x_of(double fraction) { return kLabels + kBars * std::clamp(fraction, 0.0, kMost) / kMost; }

std::string bar(const Result& r, int y) {
  std::string numbers = fmt::format("{:.2f}", r.fraction());
  if (r.best_peer() != nullptr) {
    numbers += fmt::format(R"( <tspan fill="#555" font-weight="normal">· {:.1f}× {}</tspan>)", r.times_best_peer(),
                           xml_text(r.best_peer()->short_name()));
  }
  return fmt::format(
      R"(<text x="{0}" y="{1}" text-anchor="end">{2}</text><rect x="{3}" y="{4}" width="{5:.1f}" height="{6}" fill="{7}"/><text x="{8:.1f}" y="{1}" font-weight="bold" fill="#222">{9}</text>)"
      "\n",
      kLabels - 8, y + 13, xml_text(r.problem + (r.layout == "nhwc" ? " nhwc" : "")), kLabels, y + 2,
      x_of(r.fraction()) - kLabels, kRow - 4, r.judged_hot ? "#d9822b" : "#2b6cb0", x_of(r.fraction()) + 5, numbers);
}

}  // namespace

std::string to_svg(const Run& run, const std::vector<Result>& results) {
  std::vector<const Result*> rows;
  std::set<std::string> ops;
  for (const Result& r : results) {
    if (!r.verified || r.dtype != results.front().dtype) continue;
    rows.push_back(&r);
    ops.insert(r.op);
  }
  const int height = kTop + kRow * static_cast<int>(rows.size() + ops.size()) + kBottom;
  const std::string where =
      run.device ? run.device->facts.name : fmt::format("{}, {} threads", run.machine.cpu, run.limits.threads);
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="12">)"
      "\n"
      R"(<rect width="{0}" height="{1}" fill="white"/>)"
      "\n"
      R"(<text x="12" y="22" font-size="15" font-weight="bold">Fraction of the {2} · times faster than the best peer</text>)"
      "\n"
      R"(<text x="12" y="42" fill="#555">{3}, {4}, commit {5}; <tspan fill="#2b6cb0">blue: from memory</tspan>, <tspan fill="#d9822b">orange: in cache</tspan></text>)"
      "\n",
      kLabels + kBars + kNumbers, height,
      run.device ? "bandwidth of a copy" : "floor (the time only to move the bytes)", results.front().dtype,
      xml_text(where), xml_text(run.commit));
  for (const double mark : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    svg += fmt::format(
        R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="#ddd"/><text x="{0:.1f}" y="{3}" text-anchor="middle" fill="#555">{4}</text>)"
        "\n",
        x_of(mark), kTop - 6, height - kBottom, kTop - 10, mark);
  }
  int y = kTop;
  for (const std::string& op : ops) {
    svg += fmt::format(R"(<text x="12" y="{}" font-weight="bold">{}</text>)"
                       "\n",
                       y + 13, xml_text(op));
    y += kRow;
    for (const Result* r : rows) {
      if (r->op != op) continue;
      svg += bar(*r, y);
      y += kRow;
    }
  }
  return svg + "</svg>\n";
}

}  // namespace bench
