// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include "buffers.h"
#include "check.h"
#include "core/cache_size.h"
#include "core/half.h"
#include "floor.h"
#include "peers/peers.h"
#include "race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>

namespace bench {

namespace {

// ---- Running ---------------------------------------------------------------------------------------------

std::vector<std::max_align_t> workspace_for(const bp_operator* op) {
  std::size_t bytes = 0;
  bp_operator_workspace_size(op, &bytes);
  return std::vector<std::max_align_t>(bytes / sizeof(std::max_align_t) + 1);
}

void run(const bp_operator* op, const BufferSet& set, std::vector<std::max_align_t>& workspace) {
  if (bp_operator_run(op, set.in.data(), set.in.size(), set.out.data(), set.out.size(), workspace.data(), nullptr) !=
      BP_OK) {
    throw tools::UsageError(bp_last_error());
  }
}

bool is_reference(const bp_operator* op) { return std::string_view(bp_operator_implementation(op)) == "reference"; }

// ---- Inputs ----------------------------------------------------------------------------------------------

// All tensors of a problem, as often as it is needed.
class Buffers {
 public:
  Buffers(const tools::Problem& problem, std::int32_t dtype, const tools::Tensors& specs, std::size_t count)
      : problem_(problem), dtype_(dtype), specs_(specs) {
    for (std::size_t i = 0; i < count; ++i) sets_.emplace_back(specs);
    fill_inputs(sets_.front());
    for (std::size_t k = 1; k < count; ++k) {
      for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
        std::ranges::copy(sets_.front().inputs[i].bytes(), sets_[k].inputs[i].data());
      }
    }
  }

  [[nodiscard]] const std::vector<BufferSet>& sets() const { return sets_; }
  // The x whose winners are stored, where there are any.
  [[nodiscard]] const Memory* forward_x() const { return forward_ ? forward_->inputs.data() : nullptr; }
  void keep_one() {
    while (sets_.size() > 1) sets_.pop_back();
  }

 private:
  void fill_inputs(const BufferSet& set) {
    for (std::size_t i = 0; i < specs_.inputs.size(); ++i) {
      if (specs_.inputs[i].absent) continue;
      if (specs_.inputs[i].name == "winners") {
        fill_winners(set.inputs[i]);
      } else {
        fill(specs_.inputs[i], set.inputs[i].bytes(), i + 3);
      }
    }
  }

  // Stored winners are those of a forward pass over some x.
  void fill_winners(const Memory& winners) {
    tools::Problem forward = problem_;
    forward.kind = BP_MAX_POOL;
    const tools::Tensors specs = tools::tensors(forward, dtype_);
    const tools::CreateResult created = tools::try_create(forward, specs, {});
    if (!created.op) throw tools::UsageError(created.error);
    forward_ = std::make_unique<BufferSet>(specs);
    fill(specs.inputs[0], forward_->inputs[0].bytes(), 7);
    forward_->out[1] = winners.data();
    std::vector<std::max_align_t> workspace = workspace_for(created.op.get());
    run(created.op.get(), *forward_, workspace);
  }

  const tools::Problem& problem_;
  std::int32_t dtype_;
  const tools::Tensors& specs_;
  std::vector<BufferSet> sets_;
  std::unique_ptr<BufferSet> forward_;
};

// ---- Verification ----------------------------------------------------------------------------------------

// The same problem with one image and a few channels, where those are not part of the question: small enough for the
// oracle.
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

// Leaves the operator's result in the set.
std::string verify(const tools::Problem& problem, std::int32_t dtype, const bp_operator* op,
                   const tools::Tensors& specs, const BufferSet& set, const Settings& settings) {
  const tools::Problem small = shrunk(problem);
  const tools::CreateResult created = tools::try_create(small, tools::tensors(small, dtype), settings.create);
  if (!created.op) return created.error;
  if (std::string wrong = tools::check_problem(small, dtype, created.op.get()); !wrong.empty()) return wrong;
  std::vector<std::max_align_t> workspace = workspace_for(op);
  run(op, set, workspace);
  if (is_reference(op)) return {};

  // At full size the reference is the judge.
  tools::CreateOptions options;
  options.implementation = "reference";
  const tools::CreateResult reference = tools::try_create(problem, specs, options);
  if (!reference.op) return reference.error;
  BufferSet expected(specs);
  expected.in = set.in;
  std::vector<std::max_align_t> reference_workspace = workspace_for(reference.op.get());
  run(reference.op.get(), expected, reference_workspace);
  for (std::size_t i = 0; i < set.outputs.size(); ++i) {
    const auto found = set.outputs[i].bytes();
    if (!found.empty() && std::memcmp(found.data(), expected.outputs[i].data(), found.size()) != 0) {
      return fmt::format("{} differs from the reference", specs.outputs[i].name);
    }
  }
  return {};
}

// A value that a peer may have computed; types that it could only have moved have no value here.
std::optional<double> value_at(std::span<const std::byte> bytes, std::size_t i, std::int32_t dtype) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  };
  switch (dtype) {
    case BP_F64:
      return as(double{});
    case BP_F32:
      return as(float{});
    case BP_F16:
      return bp::to_f32(as(bp::f16{}));
    case BP_BF16:
      return bp::to_f32(as(bp::bf16{}));
    default:
      return std::nullopt;
  }
}

// Bit-equal; or, since a peer may sum in another order, sum in the type itself and have weights of its own rounding,
// off by no more than a few units of the type in the greatest value.
bool agree(std::span<const std::byte> found, std::span<const std::byte> expected, std::int32_t dtype) {
  if (std::memcmp(found.data(), expected.data(), found.size()) == 0) return true;
  constexpr double kUnits = 16;
  const double unit = dtype == BP_F16 ? 0x1p-10 : dtype == BP_BF16 ? 0x1p-7 : 0x1p-20;
  double greatest = 0, error = 0;
  for (std::size_t i = 0; i < found.size() / tools::dtype_size(dtype); ++i) {
    const std::optional<double> a = value_at(found, i, dtype), b = value_at(expected, i, dtype);
    if (!a || !(std::fabs(*a) <= std::numeric_limits<double>::max())) return false;
    greatest = std::max(greatest, std::fabs(*b));
    error = std::max(error, std::fabs(*a - *b));
  }
  return error <= kUnits * unit * greatest;
}

// ---- Timing ----------------------------------------------------------------------------------------------

// The bytes of x that a slice of it must fetch: whole cache lines, in the rows that it has.
std::size_t fetched_bytes(const tools::Problem& p, std::size_t element) {
  constexpr std::int64_t kLine = 64;
  const auto size = static_cast<std::int64_t>(element);
  const std::int64_t n = p.y_shape.back();
  const std::int64_t span = ((n - 1) * std::abs(p.strides.back()) + 1) * size;
  std::int64_t bytes = std::min(span, n * kLine);
  for (std::size_t axis = 0; axis + 1 < p.y_shape.size(); ++axis) bytes *= p.y_shape[axis];
  return static_cast<std::size_t>(bytes);
}

// The operator's run that is timed, and all that it is timed against.
class Contest {
 public:
  Contest(const tools::Problem& problem, const tools::Tensors& specs, const bp_operator* op, const Settings& settings,
          int threads)
      : problem_(problem),
        specs_(specs),
        op_(op),
        settings_(settings),
        floor_(threads),
        workspace_(workspace_for(op)) {}

  Timing time(const std::vector<BufferSet>& sets, const std::vector<PeerProcess*>& peers,
              std::vector<PeerResult>& peer_results) {
    std::vector<Racer> racers{own(sets), floor(sets, Stores::ordinary), floor(sets, Stores::non_temporal)};
    for (PeerProcess* peer : peers) racers.emplace_back([peer](const Turn& turn) { return peer->run(turn); });
    race(racers, sets.size(), settings_.seconds, settings_.least_repetitions);
    for (std::size_t i = 0; i < peers.size(); ++i) peer_results[i].median_ns = racers[3 + i].median();
    return {.median_ns = racers[0].median(),
            .spread = racers[0].spread(),
            .floor_ns = std::min(racers[1].median(), racers[2].median()),
            .repetitions = racers[0].turns()};
  }

 private:
  Racer own(const std::vector<BufferSet>& sets) {
    return Racer(calls_here(sets.size(), [&](std::size_t set) { run(op_, sets[set], workspace_); }));
  }

  Racer floor(const std::vector<BufferSet>& sets, Stores stores) {
    return Racer(
        floor_.while_awake(calls_here(sets.size(), [&, stores](std::size_t set) { move(sets[set], stores); })));
  }

  void move(const BufferSet& set, Stores stores) {
    in_.clear();
    out_.clear();
    for (const Memory& memory : set.inputs) in_.emplace_back(memory.bytes());
    for (const Memory& memory : set.outputs) out_.emplace_back(memory.bytes());
    if (problem_.kind == BP_SLICE) {
      in_[0] = in_[0].first(fetched_bytes(problem_, tools::dtype_size(specs_.inputs[0].dtype)));
    }
    floor_.move(in_, out_, stores);
  }

  const tools::Problem& problem_;
  const tools::Tensors& specs_;
  const bp_operator* op_;
  const Settings& settings_;
  Floor floor_;
  std::vector<std::max_align_t> workspace_;
  std::vector<std::span<const std::byte>> in_;
  std::vector<std::span<std::byte>> out_;
};

// Peers that have such an operator, ready to race; what they compute is compared with the verified result in the set.
std::vector<PeerProcess*> prepared(const Peers& peers, const PeerTask& task, std::vector<PeerResult>& results) {
  std::vector<PeerProcess*> ready;
  const Memory& output = task.sets.front().outputs.front();
  const std::vector<std::byte> expected(output.bytes().begin(), output.bytes().end());
  for (const auto& peer : peers.running()) {
    if (!peer->prepare(task)) continue;
    std::memset(output.data(), 0xa5, expected.size());  // what it does not write is not taken for its result
    peer->run({.first_set = 0, .untimed = 0, .timed = 1});
    const bool agrees = agree(output.bytes(), expected, task.specs.outputs.front().dtype);
    results.push_back({.name = peer->name(), .agrees = agrees});
    ready.push_back(peer.get());
  }
  return ready;
}

}  // namespace

int Settings::threads() const {
  return create.threads > 0 ? create.threads : static_cast<int>(std::thread::hardware_concurrency());
}

const PeerResult* Result::best_peer() const {
  const PeerResult* best = nullptr;
  for (const PeerResult& peer : peers) {
    if (peer.agrees && (best == nullptr || peer.median_ns < best->median_ns)) best = &peer;
  }
  return best;
}

Result measure(const tools::Problem& problem, std::int32_t dtype, const Settings& settings, const Peers& peers) {
  const tools::Tensors specs = tools::tensors(problem, dtype);
  const tools::CreateResult created = tools::try_create(problem, specs, settings.create);
  if (!created.op) throw tools::UsageError(created.error);
  const bp_operator* op = created.op.get();
  Result result{.op = bp_operator_name(op),
                .problem = problem.name,
                .dtype = std::string(tools::dtype_name(dtype)),
                .layout = problem.nhwc ? "nhwc" : "nchw",
                .device = settings.create.device.kind == BP_DEVICE_CPU ? "cpu" : "cuda",
                .implementation = bp_operator_implementation(op),
                .threads = is_reference(op) ? 1 : settings.threads()};
  bp_operator_bytes(op, &result.bytes);

  const std::size_t cache = bp::last_level_cache();
  result.judged_hot = result.bytes < cache;
  constexpr std::size_t kMostSets = 64;
  const std::size_t past_cache = 2 * cache / std::max<std::uint64_t>(result.bytes, 1) + 1;
  Buffers buffers(problem, dtype, specs, std::min(past_cache, kMostSets));
  result.difference = verify(problem, dtype, op, specs, buffers.sets().front(), settings);
  result.verified = result.difference.empty();
  if (!result.verified) return result;

  Contest contest(problem, specs, op, settings, result.threads);
  if (result.judged_hot) {
    // So small that all sets together would be in the cache: it has no cold sense.
    if (past_cache <= kMostSets) result.cold = contest.time(buffers.sets(), {}, result.peers);
    buffers.keep_one();
    std::vector<std::max_align_t> workspace = workspace_for(op);
    run(op, buffers.sets().front(), workspace);  // the floor has written over the result
  }
  const PeerTask task{problem, specs, buffers.sets(), buffers.forward_x()};
  const std::vector<PeerProcess*> ready = prepared(peers, task, result.peers);
  (result.judged_hot ? result.hot : result.cold) = contest.time(buffers.sets(), ready, result.peers);
  for (PeerProcess* peer : ready) peer->release();
  return result;
}

}  // namespace bench
