// SPDX-License-Identifier: Apache-2.0
// What the bench runs on.
#include "buffers.h"
#include "core/cache_size.h"
#include "floor.h"
#include "harness.h"
#include "race.h"

#include <algorithm>
#include <fstream>
#include <thread>

namespace bench {

Machine machine() {
  Machine m;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0 && m.cpu.empty()) m.cpu = line.substr(line.find(':') + 2);
  }
  std::ifstream version("/proc/sys/kernel/osrelease");
  std::getline(version, m.system);
  m.system = "Linux " + m.system;
  m.compiler = "g++ " __VERSION__;
  m.cores = static_cast<int>(std::thread::hardware_concurrency());
  m.last_level_cache = bp::last_level_cache();
  return m;
}

CopyLimits copy_limits(int threads) {
  const std::size_t size = std::max<std::size_t>(std::size_t{256} << 20, 4 * bp::last_level_cache());
  const Memory from(size), to(size);
  const std::span<const std::byte> in[] = {from.bytes()};
  const std::span<std::byte> out[] = {to.bytes()};
  Floor floor(threads);
  std::vector<Racer> racers;
  for (const Stores stores : {Stores::ordinary, Stores::non_temporal}) {
    racers.emplace_back(floor.while_awake(calls_here(1, [&, stores](std::size_t) { floor.move(in, out, stores); })));
  }
  constexpr int kTurns = 7;
  race(racers, 1, 0, kTurns);
  const auto rate = [&](const Racer& racer) { return 2 * static_cast<double>(size) / racer.median(); };
  return {threads, rate(racers[0]), rate(racers[1])};
}

}  // namespace bench
