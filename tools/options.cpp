// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "device_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <array>
#include <charconv>
#include <map>

namespace tools {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <class Number>
Number parse_number(std::string_view option, std::string_view text, std::string_view expected) {
  Number value{};
  // from_chars knows no plus sign.
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  const auto [end, error] = std::from_chars(text.data() + (plus ? 1 : 0), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{}: '{}' is not {}", option, text, expected));
  }
  return value;
}

template <class Number>
std::vector<Number> parse_list(std::string_view option, std::string_view text, std::string_view expected) {
  std::vector<Number> values;
  for (const std::string_view part : split(text, ',')) values.push_back(parse_number<Number>(option, part, expected));
  return values;
}

// "2=0:0.25:0.75,1:1": for every output its first index, then its weights.
void parse_table(Problem& problem, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) throw UsageError("--table: expected AXIS=first:weight:...,first:weight:...");
  const auto axis = parse_number<std::int64_t>("--table", text.substr(0, equals), "an axis");
  if (axis < 0 || axis >= BP_MAX_RANK) throw UsageError(fmt::format("--table: axis is {}, expected 0 to 7", axis));
  AxisTable table;
  if (equals + 1 < text.size()) {
    for (const std::string_view row : split(text.substr(equals + 1), ',')) {
      const std::vector<std::string_view> parts = split(row, ':');
      table.first.push_back(parse_number<std::int64_t>("--table", parts[0], "an index"));
      table.count.push_back(static_cast<std::int64_t>(parts.size()) - 1);
      for (std::size_t k = 1; k < parts.size(); ++k) {
        table.weights.push_back(parse_number<double>("--table", parts[k], "a number"));
      }
    }
  }
  if (problem.tables.size() <= static_cast<std::size_t>(axis))
    problem.tables.resize(static_cast<std::size_t>(axis) + 1);
  problem.tables[static_cast<std::size_t>(axis)] = std::move(table);
}

// A refusal inside CLI11 carries our sentence.
template <class F>
auto as_validation(F&& f) {
  return [f](const std::string& text) {
    try {
      f(text);
    } catch (const UsageError& error) {
      throw CLI::ValidationError(error.what());
    }
  };
}

class Adder {
 public:
  explicit Adder(CLI::App& command) : command_(command) {}

  void ints(const std::string& option, Ints& target, const std::string& help) {
    function(option, help, "N,N,...", [option, &target](const std::string& t) { target = parse_ints(option, t); });
  }
  // One value for each axis, or one for all of them.
  void axes(const std::string& option, Ints& target, const std::string& help) {
    ints(option, target, help + kOneForAll);
  }
  void axes(const std::string& option, Reals& target, const std::string& help) {
    function(option, help + kOneForAll, "R,R,...",
             [option, &target](const std::string& t) { target = parse_reals(option, t); });
  }
  template <class Enum>
  void choice(const std::string& option, Enum& target, const std::map<std::string, Enum>& choices,
              const std::string& help) {
    std::string names;
    for (const auto& [name, value] : choices) names += (names.empty() ? "" : "|") + name;
    function(option, help, names, [option, names, choices, &target](const std::string& t) {
      const auto found = choices.find(t);
      if (found == choices.end()) throw UsageError(fmt::format("{}: is '{}', expected {}", option, t, names));
      target = found->second;
    });
  }
  template <class F>
  CLI::Option* function(const std::string& option, const std::string& help, const std::string& form, F&& f) {
    return command_.add_option_function<std::string>(option, as_validation(std::forward<F>(f)), help)->type_name(form);
  }
  // May be given again and again; takes one value each time.
  template <class F>
  void repeated(const std::string& option, const std::string& help, const std::string& form, F&& f) {
    command_
        .add_option_function<std::vector<std::string>>(
            option,
            [f](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) as_validation(f)(text);
            },
            help)
        ->allow_extra_args(false)
        ->type_name(form);
  }
  void number(const std::string& option, std::uint64_t& target, const std::string& help) {
    function(option, help, "N", [option, &target](const std::string& t) { target = parse_count(option, t); });
  }
  void flag(const std::string& option, bool& target, const std::string& help) {
    command_.add_flag(option, target, help);
  }

 private:
  static constexpr const char* kOneForAll = "; one value: all axes";
  CLI::App& command_;
};

void add_layout(Adder& add, Problem& p) {
  const bool forward = p.kind == BP_RELU || p.kind == BP_MAX_POOL || p.kind == BP_RESAMPLE || p.kind == BP_SLICE;
  const bool converts = p.kind == BP_CONVERT_WINNERS;
  if (reads_x(p.kind)) add.ints("--x-strides", p.x_strides, "strides of x in elements (default: packed)");
  if (forward) add.ints("--y-strides", p.y_strides, "strides of y");
  if (!forward && !converts) add.ints("--dy-strides", p.dy_strides, "strides of dy");
  if (!forward && !converts) add.ints("--dx-strides", p.dx_strides, "strides of dx");
  if (p.kind == BP_MAX_POOL || p.kind == BP_MAX_POOL_GRAD || converts) {
    add.ints("--winners-strides", p.winners_strides, "strides of the stored winners");
  }
  if (converts) add.ints("--from-strides", p.dy_strides, "strides of the winners that are read");
  add.flag("--nhwc", p.nhwc, "channels-last strides for every tensor without strides of its own");
}

void add_pooling(Adder& add, Problem& p, bool y_is_given) {
  add.axes("--window", p.window, "window size for each spatial axis");
  add.axes("--strides", p.strides, "window strides (default: the window)");
  add.axes("--start-padding", p.start_padding, "padding before the first element (default 0)");
  add.axes("--end-padding", p.end_padding, "padding after the last element (default 0)");
  add.axes("--dilations", p.dilations, "distance of the taps (default 1)");
  if (!y_is_given) {
    add.flag("--ceil-mode", p.ceil_mode, "the output size, where none is given, counts a last partial window");
  }
  const bool converts = p.kind == BP_CONVERT_WINNERS;
  const std::string winners_option = p.kind == BP_MAX_POOL_GRAD ? "--winners,--winners-kind" : "--winners";
  add.function(winners_option, converts ? "the form to write" : "stored winners and their form",
               converts ? "compact|flat|plane" : "compact|flat",
               [&p, converts](const std::string& t) { p.winners = parse_winners_kind("--winners", t, converts); });
  if (converts) {
    add.function("--winners-kind", "the form that is read", "compact|flat|plane",
                 [&p](const std::string& t) { p.winners_from = parse_winners_kind("--winners-kind", t, true); });
  }
  add.function(
      "--winners-dtype",
      converts ? "type of the flat or plane winners to write (default i64)" : "type of flat winners (default i64)",
      "u32|u64|i32|i64", [&p](const std::string& t) { p.winners_dtype = parse_dtype("--winners-dtype", t); });
}

void add_resample(Adder& add, Problem& p) {
  add.choice<std::int32_t>("--mode", p.mode, {{"nearest", BP_NEAREST}, {"linear", BP_LINEAR}},
                           "interpolation (default linear)");
  add.choice<std::int32_t>(
      "--rounding", p.rounding,
      {{"increasing", BP_ROUND_INCREASING}, {"decreasing", BP_ROUND_DECREASING}, {"half-up", BP_ROUND_HALF_UP}},
      "how nearest rounds the coordinate (default half-up)");
  add.choice<std::int32_t>(
      "--convention", p.convention,
      {{"half-pixel", BP_HALF_PIXEL}, {"align-corners", BP_ALIGN_CORNERS}, {"asymmetric", BP_ASYMMETRIC}},
      "what the coordinates mean (default half-pixel); exact where no scales are given");
  add.axes("--scales", p.scales, "forward scale for each axis");
  add.axes("--input-offsets", p.input_offsets, "input pixel offsets, with --scales");
  add.axes("--output-offsets", p.output_offsets, "output pixel offsets, with --scales");
  add.repeated("--table", "one axis given outright: for every output its first source index and its weights",
               "AXIS=first:w:w,first:w,...", [&p](const std::string& t) { parse_table(p, t); });
}

void add_slice(Adder& add, Problem& p) {
  add.axes("--offsets", p.offsets, "first element of the window (default 0)");
  add.axes("--sizes", p.sizes, "size of the window (default: to the end)");
  add.axes("--strides", p.strides, "step, negative to walk backwards (default 1)");
}

}  // namespace

Ints parse_ints(std::string_view option, std::string_view text) {
  return parse_list<std::int64_t>(option, text, "a 64-bit integer");
}
Reals parse_reals(std::string_view option, std::string_view text) {
  return parse_list<double>(option, text, "a number");
}

double parse_real(std::string_view option, std::string_view text) {
  return parse_number<double>(option, text, "a number");
}

std::uint64_t parse_count(std::string_view option, std::string_view text) {
  return parse_number<std::uint64_t>(option, text, "a count below 2^64");
}

std::int32_t parse_dtype(std::string_view option, std::string_view text) {
  try {
    return dtype_from_name(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

std::int32_t parse_winners_kind(std::string_view option, std::string_view text, bool plane_allowed) {
  if (text == "compact") return BP_WINNERS_COMPACT;
  if (text == "flat") return BP_WINNERS_FLAT;
  if (plane_allowed && text == "plane") return BP_WINNERS_PLANE;
  throw UsageError(fmt::format("{}: '{}' is no form of winners, expected compact|flat{}", option, text,
                               plane_allowed ? "|plane" : ""));
}
void add_parameter_options(CLI::App& command, Problem& p, bool y_is_given) {
  Adder add(command);
  if (p.kind == BP_RELU_GRAD) {
    add.choice<std::int32_t>("--nan", p.nan, {{"zero", BP_NAN_ZERO}, {"pass", BP_NAN_PASS}},
                             "what a NaN in x does to dy (default zero)");
  }
  if (is_pooling(p.kind)) add_pooling(add, p, y_is_given);
  if (is_resample(p.kind)) add_resample(add, p);
  if (is_slice(p.kind)) add_slice(add, p);
}

void add_problem_options(CLI::App& command, Problem& p) {
  Adder add(command);
  add.ints("--x-shape", p.x_shape, "sizes of x (and dx)");
  if (!is_elementwise(p.kind)) add.ints("--y-shape", p.y_shape, "sizes of y (and dy)");
  add.function("--dtype", "data types (default: all the operator takes)", "T,T,...", [&p](const std::string& t) {
    p.dtypes.clear();
    for (const std::string_view part : split(t, ',')) p.dtypes.push_back(parse_dtype("--dtype", part));
  });
  add_parameter_options(command, p, false);
  add_layout(add, p);
  if (p.kind == BP_MAX_POOL_GRAD || p.kind == BP_CONVERT_WINNERS) {
    add.flag("--corrupt-winners", p.corrupt_winners, "make some of the stored winners wrong");
  }
  add.choice<Fill>("--fill", p.fill,
                   {{"mixed", Fill::mixed},
                    {"integers", Fill::integers},
                    {"reals", Fill::reals},
                    {"specials", Fill::specials},
                    {"ones", Fill::ones}},
                   "what the inputs are filled with (default mixed)");
  add.number("--seed", p.seed, "seed of the fill (default 1)");
}

std::string_view device_name(std::int32_t kind) { return kind == BP_DEVICE_CPU ? "cpu" : "cuda"; }

void add_device_options(CLI::App& command, DeviceOptions& options, Threads threads) {
  static constexpr std::uint64_t kMostThreads = 1 << 16;
  Adder add(command);
  add.choice<std::int32_t>("--device", options.device, {{"cpu", BP_DEVICE_CPU}, {"cuda", BP_DEVICE_CUDA}},
                           "where to run (default cpu)");
  const bool list = threads == Threads::list;
  add.function("--threads",
               list ? "the most threads to use, each in turn (default: all)" : "the most threads to use (default: all)",
               list ? "N,N,..." : "N", [&options, list](const std::string& t) {
                 options.threads.clear();
                 for (const std::string_view part : list ? split(t, ',') : std::vector<std::string_view>{t}) {
                   const std::uint64_t count = parse_count("--threads", part);
                   if (count > kMostThreads)
                     throw UsageError(fmt::format("--threads: is {}, expected at most {}", part, kMostThreads));
                   options.threads.push_back(static_cast<int>(count));
                 }
               });
  command.add_option("--implementation", options.implementation, "force the implementation of this name")
      ->type_name("NAME");
}

}  // namespace tools
