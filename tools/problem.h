// SPDX-License-Identifier: Apache-2.0
// A problem: an operator, its parameters and its shapes, as the command line spells them. The problems files, the
// random sweep, `backpass check`, `explain`, `run` and the bench all speak this one language, so that any line that one
// prints another can read.
#pragma once

#include <backpass/backpass.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tools {

// Bad input of the user's: one line on stderr, exit 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Ints = std::vector<std::int64_t>;
using Reals = std::vector<double>;

// One axis of a resample given outright (--table AXIS=first:w:w,first:w,...).
struct AxisTable {
  Ints first;
  Ints count;
  Reals weights;
};

// mixed is one of integers, reals and specials (NaN, infinities, both zeros, subnormals, overflowing values), by seed.
enum class Fill { mixed, integers, reals, specials, ones };

struct Problem {
  std::int32_t kind = 0;  // bp_operator_kind
  std::string name;       // from a problems file, else empty

  Ints x_shape, y_shape;                                               // of x and dx; of y, dy and the winners
  Ints x_strides, dx_strides, y_strides, dy_strides, winners_strides;  // empty: packed
  bool nhwc = false;                                                   // channels-last strides for all tensors
  std::vector<std::int32_t> dtypes;                                    // empty: all that the operator takes

  std::int32_t nan = BP_NAN_ZERO;

  Ints window, strides, start_padding, end_padding, dilations;  // strides: also the slice's
  bool ceil_mode = false;
  std::int32_t winners = BP_WINNERS_NONE;       // the kind written, read by max-pool-grad, or converted to
  std::int32_t winners_from = BP_WINNERS_NONE;  // convert-winners: the kind read
  std::int32_t winners_dtype = 0;               // of flat and plane winners; 0: i64
  bool corrupt_winners = false;                 // a part of the stored winners is made wrong

  std::int32_t mode = BP_LINEAR;
  std::int32_t rounding = BP_ROUND_HALF_UP;
  std::int32_t convention = BP_HALF_PIXEL;
  Reals scales, input_offsets, output_offsets;
  std::vector<std::optional<AxisTable>> tables;  // one for each axis, or empty

  Ints offsets, sizes;

  Fill fill = Fill::mixed;
  std::uint64_t seed = 1;

  std::string text;  // the line it was parsed from

  [[nodiscard]] int rank() const { return static_cast<int>(x_shape.size()); }
  [[nodiscard]] int spatial_rank() const { return rank() - 2; }
};

// "max-pool-grad" <-> BP_MAX_POOL_GRAD; the names of the command line, in the order of their values.
std::vector<std::string_view> operator_names();
std::string_view operator_name(std::int32_t kind);
std::optional<std::int32_t> operator_kind(std::string_view name);
std::int32_t require_operator(std::string_view name);  // throws UsageError that lists them
std::string operator_help(std::int32_t kind);          // one line

// What an operator is like, said once for every command. Elementwise: y has the shape of x, and an output may be an
// input.
bool is_pooling(std::int32_t kind);
bool is_resample(std::int32_t kind);
bool is_slice(std::int32_t kind);
bool is_elementwise(std::int32_t kind);
bool reads_x(std::int32_t kind);
bool reads_dy(std::int32_t kind);

std::string_view dtype_name(std::int32_t dtype);
std::int32_t dtype_from_name(std::string_view name);  // throws UsageError
std::size_t dtype_size(std::int32_t dtype);
const std::vector<std::int32_t>& all_dtypes();

// Adds the options of problem.kind to a command; parsing fills `problem`. The parameters alone (`y_is_given`: the sizes
// of y come from a file, so nothing that they would follow from is offered), or the whole problem with shapes, strides,
// types and fill.
void add_parameter_options(CLI::App& command, Problem& problem, bool y_is_given);
void add_problem_options(CLI::App& command, Problem& problem);

// Parses a line "OP --option value ..."; throws UsageError.
Problem parse_problem(std::string_view line);

// What the options leave out: one value for all axes is spread, default sizes, strides and y_shape are computed from
// x_shape. Afterwards every list that the operator uses has its full length.
void complete(Problem& problem);

// A tensor of a problem, as it is bound.
struct TensorSpec {
  std::string_view name;  // "x", "dy", ...
  std::int32_t dtype = 0;
  Ints sizes{};
  Ints strides{};       // in elements, always filled in
  bool absent = false;  // an optional tensor that this problem does not use
};

// The type a problem is in where none is said: f32, or that of the stored winners that are converted.
std::int32_t default_dtype(const Problem& problem);

// The bound tensors, in slot order. For convert-winners `dtype` is that of the winners that are read.
struct Tensors {
  std::vector<TensorSpec> inputs, outputs;
};
Tensors tensors(const Problem& problem, std::int32_t dtype);

// The smallest compact type that numbers the window's taps.
std::int32_t compact_dtype(const Ints& window);

// Creating an operator through the C ABI.
struct CreateOptions {
  bp_device device{BP_DEVICE_CPU, 0};
  std::string implementation;
  int threads = 0;
  bp_parallel_for parallel_for = nullptr;
  void* parallel_for_context = nullptr;
};
struct OperatorDeleter {
  void operator()(bp_operator* op) const { bp_operator_destroy(op); }
};
using OperatorPtr = std::unique_ptr<bp_operator, OperatorDeleter>;
struct CreateResult {
  bp_status status = BP_OK;
  std::string error;
  OperatorPtr op;
};
CreateResult try_create(const Problem& problem, const Tensors& tensors, const CreateOptions& options);

// A problems file: "name: OP options" lines, under "[section]" lines where there are any; "#" begins a comment.
struct SectionedProblem {
  std::string section;
  Problem problem;
};
std::vector<SectionedProblem> parse_problems(std::string_view text);

// The problems of every problems file, in the order of the families.
const std::vector<Problem>& named_problems();

}  // namespace tools
