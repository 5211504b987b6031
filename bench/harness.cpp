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

void Result::take_better(const Result& other) {
  if (!verified || !other.verified) {
    if (verified) *this = other;
    return;
  }
  const auto better = [](std::optional<Timing>& mine, const std::optional<Timing>& theirs) {
    if (!mine || !theirs) return;
    const int repetitions = mine->repetitions + theirs->repetitions;
    const double floor = std::min(mine->floor_ns, theirs->floor_ns);
    if (theirs->median_ns < mine->median_ns) mine = theirs;
    mine->floor_ns = floor;
    mine->repetitions = repetitions;
  };
  better(hot, other.hot);
  better(cold, other.cold);
  for (PeerResult& peer : peers) {
    for (const PeerResult& again : other.peers) {
      if (again.name == peer.name && again.agrees) peer.median_ns = std::min(peer.median_ns, again.median_ns);
    }
  }
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
