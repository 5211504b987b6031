// SPDX-License-Identifier: Apache-2.0
// An operator on a CUDA device: verified against the CPU's result, then timed against the device's own copy.
#include "check.h"
#include "peers/peers.h"
#include "trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace bench {

namespace {

// The tensors of one problem on the device, with what the host's have.
struct DeviceSet {
  DeviceSet(const BufferSet& host, const tools::Tensors& specs) {
    for (std::size_t i = 0; i < specs.inputs.size(); ++i) in.push_back(add(inputs, host.inputs[i], specs.inputs[i]));
    for (std::size_t i = 0; i < specs.outputs.size(); ++i)
      out.push_back(add(outputs, host.outputs[i], specs.outputs[i]));
  }

  std::vector<tools::DeviceMemory> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;

 private:
  static void* add(std::vector<tools::DeviceMemory>& tensors, const Memory& host, const tools::TensorSpec& spec) {
    const tools::DeviceMemory& memory = tensors.emplace_back(host.bytes().size());
    if (memory.data() == nullptr) return nullptr;
    memory.write(host.bytes());
    return memory.data() + (origin(host, spec) - host.data());
  }
};

// Empty, or what is wrong. The oracle judges the same problem in small, the CPU's own best implementation its full
// size.
std::string verify_on_device(const tools::Problem& problem, std::int32_t dtype, const tools::Tensors& specs,
                             Operator& op, const BufferSet& host, const DeviceSet& device, const Settings& settings) {
  const tools::Problem small = shrunk(problem);
  const Operator small_op(small, tools::tensors(small, dtype), settings.create);
  if (std::string wrong = tools::check_problem(small, dtype, small_op.get(), BP_DEVICE_CUDA); !wrong.empty())
    return wrong;
  op.run(device.in, device.out);
  Operator(problem, specs, {}).run(host);
  for (std::size_t i = 0; i < host.outputs.size(); ++i) {
    std::vector<std::byte> found(device.outputs[i].size());
    device.outputs[i].read(found);
    if (!found.empty() && std::memcmp(found.data(), host.outputs[i].data(), found.size()) != 0)
      return fmt::format("{} differs from the CPU's", specs.outputs[i].name);
  }
  return {};
}

// The bytes that count: of a slice, those of whole sectors of memory.
std::uint64_t moved_bytes(const tools::Problem& problem, const tools::Tensors& specs, const DeviceSet& set,
                          std::uint64_t bytes) {
  if (problem.kind != BP_SLICE) return bytes;
  constexpr std::int64_t kSector = 32;
  return fetched_bytes(problem, tools::dtype_size(specs.inputs[0].dtype), kSector) + set.outputs[0].size();
}

// Short calls are timed many at a time: what a launch costs the host is hidden behind the one before it.
constexpr int kShortCalls = 10;

Racer on_device(const tools::DeviceStream& stream, std::size_t sets, std::function<void(std::size_t)> call) {
  return Racer([&stream, sets, call = std::move(call)](const Turn& turn) {
    std::size_t set = turn.first_set;
    const auto calls = [&](int count) {
      for (int i = 0; i < count; ++i) call(set++ % sets);
    };
    const int times = turn.untimed > 0 ? kShortCalls : 1;  // a long call is not prepared for
    // Waited for, as peers do: after another process had the device, the first call takes longer.
    if (turn.untimed > 0) stream.time([&] { calls(turn.untimed); });
    return stream.time([&] { calls(turn.timed * times); }) / times;
  });
}

// The same calls out of a graph.
Racer in_graph(const tools::DeviceStream& stream, std::size_t sets, const std::function<void(std::size_t)>& call) {
  auto graph = std::make_shared<tools::DeviceGraph>(stream, [&] {
    for (std::size_t i = 0; i < kShortCalls; ++i) call(i % sets);
  });
  return Racer([&stream, graph](const Turn& turn) {
    for (int i = 0; i < turn.untimed; ++i) graph->launch(stream);
    return stream.time([&] {
      for (int i = 0; i < turn.timed; ++i) graph->launch(stream);
    }) / kShortCalls;
  });
}

}  // namespace

DeviceLimits device_limits() {
  constexpr std::size_t kSize = std::size_t{1} << 30;
  constexpr int kTurns = 11;
  const tools::DeviceMemory from(kSize), to(kSize);
  const tools::DeviceStream stream;
  std::vector<Racer> racers{on_device(stream, 1, [&](std::size_t) { stream.copy(to, from); })};
  race(racers, 1, 0, kTurns);
  return {tools::device_facts(), 2 * static_cast<double>(kSize) / racers.front().median()};
}

Result measure_on_device(const tools::Problem& problem, std::int32_t dtype, const Settings& settings,
                         const DeviceLimits& limits, const Peers& peers) {
  const tools::Tensors specs = tools::tensors(problem, dtype);
  Operator op(problem, specs, settings.create);
  Result result = result_of(problem, dtype, settings, op);
  result.threads = 1;
  result.judged_hot = false;
  const Buffers host(problem, dtype, specs, 1);
  std::vector<DeviceSet> sets;
  sets.emplace_back(host.sets().front(), specs);
  result.difference = verify_on_device(problem, dtype, specs, op, host.sets().front(), sets.front(), settings);
  result.verified = result.difference.empty();
  if (!result.verified) return result;

  const std::size_t past_cache = 2 * limits.facts.cache / std::max<std::uint64_t>(result.bytes, 1) + 1;
  while (sets.size() < std::min(past_cache, kMostSets)) sets.emplace_back(host.sets().front(), specs);
  const tools::DeviceStream stream;
  const auto call = [&](std::size_t set) { op.run(sets[set].in, sets[set].out, stream.handle()); };
  std::vector<Racer> racers{on_device(stream, sets.size(), call)};
  if (settings.graphs) {
    racers.push_back(in_graph(stream, sets.size(), call));
    result.peers.push_back({.name = "graph", .agrees = true});
  }
  const PeerTask task{problem, specs, host.sets(), host.forward_x(), sets.size()};
  const std::vector<PeerProcess*> ready = prepared(peers, task, result.peers);
  for (PeerProcess* peer : ready) racers.emplace_back([peer](const Turn& turn) { return peer->run(turn); });
  race(racers, sets.size(), settings.seconds, settings.least_repetitions);
  for (std::size_t i = 0; i < result.peers.size(); ++i) result.peers[i].median_ns = racers[1 + i].median();
  for (PeerProcess* peer : ready) peer->release();
  const std::uint64_t moved = moved_bytes(problem, specs, sets.front(), result.bytes);
  result.cold = {.median_ns = racers.front().median(),
                 .spread = racers.front().spread(),
                 .floor_ns = static_cast<double>(moved) / limits.copy_gb_per_s,
                 .repetitions = racers.front().turns()};
  return result;
}

}  // namespace bench
