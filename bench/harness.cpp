// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include "buffers.h"
#include "core/half.h"
#include "peers/peers.h"
#include "race.h"
#include "trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

namespace bench {

namespace {

// ---- Verification ----------------------------------------------------------------------------------------

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

// The operator against the floor and the peers, in turns.
Timing time(Contest& contest, const std::vector<BufferSet>& sets, const Settings& settings,
            const std::vector<PeerProcess*>& peers, std::vector<PeerResult>& peer_results) {
  std::vector<Racer> racers;
  contest.enter(racers, sets);
  for (PeerProcess* peer : peers) racers.emplace_back([peer](const Turn& turn) { return peer->run(turn); });
  race(racers, sets.size(), settings.seconds, settings.least_repetitions);
  for (std::size_t i = 0; i < peers.size(); ++i) peer_results[i].median_ns = racers[Contest::kRacers + i].median();
  return Contest::timing(racers, 0);
}

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
  Operator op(problem, specs, settings.create);
  Result result = result_of(problem, dtype, settings, op);
  const std::size_t past_cache = sets_past_cache(result.bytes);
  Buffers buffers(problem, dtype, specs, std::min(past_cache, kMostSets));
  result.difference = verify(problem, shrunk(problem), dtype, op, specs, buffers.sets().front(), settings);
  result.verified = result.difference.empty();
  if (!result.verified) return result;

  Contest contest(problem, specs, op, result.threads);
  if (result.judged_hot) {
    // So small that all sets together would be in the cache: it has no cold sense.
    if (past_cache <= kMostSets) result.cold = time(contest, buffers.sets(), settings, {}, result.peers);
    buffers.keep_one();
    op.run(buffers.sets().front());  // the floor has written over the result
  }
  const PeerTask task{problem, specs, buffers.sets(), buffers.forward_x()};
  const std::vector<PeerProcess*> ready = prepared(peers, task, result.peers);
  (result.judged_hot ? result.hot : result.cold) = time(contest, buffers.sets(), settings, ready, result.peers);
  for (PeerProcess* peer : ready) peer->release();
  return result;
}

}  // namespace bench
