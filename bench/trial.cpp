// SPDX-License-Identifier: Apache-2.0
#include "trial.h"

#include "check.h"
#include "core/cache_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bench {

// ---- Running ---------------------------------------------------------------------------------------------

Operator::Operator(const tools::Problem& problem, const tools::Tensors& specs, const tools::CreateOptions& options) {
  tools::CreateResult created = tools::try_create(problem, specs, options);
  if (!created.op) throw tools::UsageError(created.error);
  op_ = std::move(created.op);
  std::size_t bytes = 0;
  bp_operator_workspace_size(op_.get(), &bytes);
  if (options.device.kind == BP_DEVICE_CUDA) {
    device_workspace_.emplace(bytes);
  } else {
    workspace_.resize(bytes / sizeof(std::max_align_t) + 1);
  }
}

std::uint64_t Operator::bytes() const {
  std::uint64_t moved = 0;
  bp_operator_bytes(op_.get(), &moved);
  return moved;
}

void Operator::run(const std::vector<const void*>& in, const std::vector<void*>& out, void* stream) {
  void* workspace = device_workspace_ ? static_cast<void*>(device_workspace_->data()) : workspace_.data();
  if (bp_operator_run(op_.get(), in.data(), in.size(), out.data(), out.size(), workspace, stream) != BP_OK) {
    throw tools::UsageError(bp_last_error());
  }
}

Result result_of(const tools::Problem& problem, std::int32_t dtype, const Settings& settings, const Operator& op) {
  return {.op = op.name(),
          .problem = problem.name,
          .dtype = std::string(tools::dtype_name(dtype)),
          .layout = problem.nhwc ? "nhwc" : "nchw",
          .device = settings.create.device.kind == BP_DEVICE_CPU ? "cpu" : "cuda",
          .implementation = op.implementation(),
          .threads = op.is_reference() ? 1 : settings.threads(),
          .bytes = op.bytes(),
          .judged_hot = op.bytes() < bp::last_level_cache()};
}

// ---- Buffers ---------------------------------------------------------------------------------------------

Buffers::Buffers(const tools::Problem& problem, std::int32_t dtype, const tools::Tensors& specs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sets_.emplace_back(specs);
  for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
    const Memory& first = sets_.front().inputs[i];
    if (specs.inputs[i].absent) continue;
    if (specs.inputs[i].name == "winners") {
      fill_winners(problem, dtype, origin(first, specs.inputs[i]));
    } else {
      fill(specs.inputs[i], first.bytes(), i + 3);
    }
    for (std::size_t k = 1; k < count; ++k) std::ranges::copy(first.bytes(), sets_[k].inputs[i].data());
  }
}

// Stored winners are those of a forward pass over some x.
void Buffers::fill_winners(const tools::Problem& problem, std::int32_t dtype, void* winners) {
  tools::Problem forward = problem;
  forward.kind = BP_MAX_POOL;
  const tools::Tensors specs = tools::tensors(forward, dtype);
  forward_ = std::make_unique<BufferSet>(specs);
  fill(specs.inputs[0], forward_->inputs[0].bytes(), 7);
  forward_->out[1] = winners;
  Operator(forward, specs, {}).run(*forward_);
}

std::size_t sets_past_cache(std::uint64_t bytes) {
  // More than this machine's share of the cache may be free for it: buffers that stay there are not cold.
  const bp::LastCache& cache = bp::last_cache();
  return (cache.shown + cache.share) / std::max<std::uint64_t>(bytes, 1) + 1;
}

// ---- Verification ----------------------------------------------------------------------------------------

tools::Problem shrunk(tools::Problem p) {
  const bool slices = tools::is_slice(p.kind);
  const auto shrink = [&](std::size_t axis, std::int64_t size) {
    if (axis >= p.x_shape.size() || p.x_shape[axis] != p.y_shape[axis] || p.x_shape[axis] <= size) return;
    p.x_shape[axis] = p.y_shape[axis] = size;
    if (slices) p.sizes[axis] = size;
  };
  shrink(0, 1);
  if (p.rank() > 2) shrink(1, 3);
  return p;
}

std::string verify(const tools::Problem& problem, const tools::Problem& small, std::int32_t dtype, Operator& op,
                   const tools::Tensors& specs, const BufferSet& set, const Settings& settings) try {
  const Operator small_op(small, tools::tensors(small, dtype), settings.create);
  if (std::string wrong = tools::check_problem(small, dtype, small_op.get(), settings.create.device.kind);
      !wrong.empty())
    return wrong;
  op.run(set);
  if (op.is_reference()) return {};

  tools::CreateOptions options;
  options.implementation = "reference";
  Operator reference(problem, specs, options);
  const BufferSet expected(specs);
  reference.run(set.in, expected.out);
  for (std::size_t i = 0; i < set.outputs.size(); ++i) {
    const auto found = set.outputs[i].bytes();
    if (!found.empty() && std::memcmp(found.data(), expected.outputs[i].data(), found.size()) != 0) {
      return fmt::format("{} differs from the reference", specs.outputs[i].name);
    }
  }
  return {};
} catch (const tools::UsageError& error) {
  return error.what();
}

// ---- Timing ----------------------------------------------------------------------------------------------

std::size_t fetched_bytes(const tools::Problem& slice, std::size_t element, std::int64_t line) {
  const auto size = static_cast<std::int64_t>(element);
  const std::int64_t n = slice.y_shape.back();
  const std::int64_t span = ((n - 1) * std::abs(slice.strides.back()) + 1) * size;
  std::int64_t bytes = std::min(span, n * line);
  for (std::size_t axis = 0; axis + 1 < slice.y_shape.size(); ++axis) bytes *= slice.y_shape[axis];
  return static_cast<std::size_t>(bytes);
}

void Contest::enter(std::vector<Racer>& racers, const std::vector<BufferSet>& sets) {
  racers.emplace_back(calls_here(sets.size(), [&](std::size_t set) { op_.run(sets[set]); }));
  for (const Stores stores : {Stores::ordinary, Stores::non_temporal}) {
    racers.emplace_back(
        floor_.while_awake(calls_here(sets.size(), [&, stores](std::size_t set) { move(sets[set], stores); })));
  }
}

Timing Contest::timing(const std::vector<Racer>& racers, std::size_t first) {
  return {.median_ns = racers[first].median(),
          .spread = racers[first].spread(),
          .floor_ns = std::min(racers[first + 1].median(), racers[first + 2].median()),
          .repetitions = racers[first].turns()};
}

void Contest::move(const BufferSet& set, Stores stores) {
  in_.clear();
  out_.clear();
  for (const Memory& memory : set.inputs) in_.emplace_back(memory.bytes());
  for (const Memory& memory : set.outputs) out_.emplace_back(memory.bytes());
  if (problem_.kind == BP_SLICE) {
    constexpr std::int64_t kLine = 64;
    const std::size_t fetched = fetched_bytes(problem_, tools::dtype_size(specs_.inputs[0].dtype), kLine);
    in_[0] = in_[0].first(std::min(in_[0].size(), fetched));
  }
  floor_.move(in_, out_, stores);
}

}  // namespace bench
