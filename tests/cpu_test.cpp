// SPDX-License-Identifier: Apache-2.0
// The CPU engine's parts: loop nests over several views, and the team of threads.
#include "backends/cpu/parallel.h"
#include "core/nest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace {

using bp::for_each_run;
using bp::make_nest;
using bp::Nest;
using bp::Tensor;
using bp::cpu::Team;
using Ints = std::vector<std::int64_t>;

// ---- Nests -----------------------------------------------------------------------------------------------

Tensor view(const Ints& sizes, const Ints& strides) {
  Tensor t{.dtype = bp::DType::f32, .rank = static_cast<int>(sizes.size())};
  std::copy(sizes.begin(), sizes.end(), t.sizes.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  return t;
}

template <std::size_t kViews>
Ints sizes_of(const Nest<kViews>& nest) {
  return {nest.sizes.begin(), nest.sizes.begin() + nest.rank};
}
template <std::size_t kViews>
Ints strides_of(const Nest<kViews>& nest, std::size_t which) {
  return {nest.strides[which].begin(), nest.strides[which].begin() + nest.rank};
}

TEST(Nest, PackedViewsAreOneRun) {
  const Tensor packed = view({2, 3, 4, 5}, {60, 20, 5, 1});
  const auto nest = make_nest(packed, packed);
  EXPECT_EQ(sizes_of(nest), (Ints{120}));
  EXPECT_EQ(strides_of(nest, 0), (Ints{1}));
  EXPECT_EQ(strides_of(nest, 1), (Ints{1}));
  EXPECT_TRUE(nest.runs_are_contiguous());
}

TEST(Nest, ChannelsLastIsOneRunToo) {
  const Tensor nhwc = view({2, 3, 4, 5}, {60, 1, 15, 3});
  const auto nest = make_nest(nhwc, nhwc);
  EXPECT_EQ(sizes_of(nest), (Ints{120}));
  EXPECT_TRUE(nest.runs_are_contiguous());
}

TEST(Nest, TheFirstViewsMemoryDecidesTheOrder) {
  const Tensor nhwc = view({2, 3, 4, 5}, {60, 1, 15, 3});
  const Tensor packed = view({2, 3, 4, 5}, {60, 20, 5, 1});
  const auto nest = make_nest(nhwc, packed);
  EXPECT_EQ(sizes_of(nest), (Ints{2, 20, 3}));  // rows and columns follow each other in both
  EXPECT_EQ(strides_of(nest, 0), (Ints{60, 3, 1}));
  EXPECT_EQ(strides_of(nest, 1), (Ints{60, 1, 20}));
  EXPECT_FALSE(nest.runs_are_contiguous());
}

TEST(Nest, AxesMergeOnlyWhereEveryViewFollows) {
  const Tensor packed = view({6, 4, 5}, {20, 5, 1});
  EXPECT_EQ(sizes_of(make_nest(packed, view({6, 4, 5}, {20, 5, 1}))), (Ints{120}));
  EXPECT_EQ(sizes_of(make_nest(packed, view({6, 4, 5}, {40, 5, 1}))), (Ints{6, 20}));     // a gap behind each plane
  EXPECT_EQ(sizes_of(make_nest(packed, view({6, 4, 5}, {28, 7, 1}))), (Ints{24, 5}));     // a gap behind each row
  EXPECT_EQ(sizes_of(make_nest(packed, view({6, 4, 5}, {0, 5, 1}))), (Ints{6, 20}));      // broadcast
  EXPECT_EQ(sizes_of(make_nest(packed, view({6, 4, 5}, {0, 0, 0}))), (Ints{120}));        // one element for all
  EXPECT_EQ(sizes_of(make_nest(packed, view({6, 4, 5}, {20, -5, 1}))), (Ints{6, 4, 5}));  // backwards
  EXPECT_EQ(sizes_of(make_nest(view({6, 4}, {-4, -1}), view({6, 4}, {-4, -1}))), (Ints{24}));
}

TEST(Nest, AxesOfSizeOneVanish) {
  EXPECT_EQ(sizes_of(make_nest(view({1, 3, 1, 2, 1}, {0, 2, 0, 1, 0}))), (Ints{6}));
  const auto one = make_nest(view({1, 1}, {0, 0}), view({1, 1}, {0, 0}));
  EXPECT_EQ(sizes_of(one), (Ints{1}));
  EXPECT_TRUE(one.runs_are_contiguous());
}

// Random pairs of views, cut into random parts: every pair of offsets that belongs together, once.
TEST(Nest, RunsVisitEveryElementOnce) {
  std::mt19937_64 random(5);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  using Pair = std::array<std::int64_t, 2>;
  for (int round = 0; round < 3000; ++round) {
    Ints sizes;
    for (std::int64_t i = between(1, 5); i > 0; --i) sizes.push_back(between(1, 4));
    // Packed in a random order of axes, now and then with gaps, backwards or (but for the first view) broadcast.
    const auto draw = [&](bool broadcasts) {
      Ints order(sizes.size()), strides(sizes.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
      if (between(0, 1) == 0) std::shuffle(order.begin(), order.end(), random);
      std::int64_t stride = 1;
      for (std::size_t i = order.size(); i-- > 0;) {
        const auto axis = static_cast<std::size_t>(order[i]);
        strides[axis] = sizes[axis] == 1 ? 0 : between(0, 5) == 0 ? -stride : stride;
        if (broadcasts && between(0, 5) == 0) strides[axis] = 0;
        stride = stride * sizes[axis] + (between(0, 3) == 0 ? between(1, 3) : 0);
      }
      return view(sizes, strides);
    };
    const Tensor first = draw(false);
    const Tensor second = draw(true);

    std::vector<Pair> expected{{0, 0}};
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      std::vector<Pair> longer;
      for (const Pair& at : expected) {
        for (std::int64_t i = 0; i < sizes[axis]; ++i) {
          longer.push_back({at[0] + i * first.strides[axis], at[1] + i * second.strides[axis]});
        }
      }
      expected = std::move(longer);
    }
    const auto nest = make_nest(first, second);
    const auto count = static_cast<std::int64_t>(expected.size());
    ASSERT_EQ(nest.count(), count);
    std::vector<Pair> found;
    for (std::int64_t from = 0; from < count;) {
      const std::int64_t to = std::min(count, from + between(1, 20));
      std::int64_t visited = 0;
      for_each_run(nest, from, to, [&](const auto& at, std::int64_t n) {
        ASSERT_GT(n, 0);
        visited += n;
        for (std::int64_t i = 0; i < n; ++i) {
          found.push_back({at[0] + i * nest.run_stride(0), at[1] + i * nest.run_stride(1)});
        }
      });
      ASSERT_EQ(visited, to - from);
      from = to;
    }
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

// ---- Teams -----------------------------------------------------------------------------------------------

// Asked of an addition: what std::fegetround tells on x86 is another unit's mode.
bool rounds_up() {
  volatile float one = 1.0f;
  volatile float little = 0x1p-30f;
  return one + little > 1.0f;
}

// A host's pool: a thread for each task, counted.
struct Pool {
  std::atomic<int> calls = 0;
  std::atomic<std::int64_t> tasks = 0;
  bool rounds_up = false;  // its threads do
  std::atomic<int> changed_modes = 0;

  static void parallel_for(void* context, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
    Pool& pool = *static_cast<Pool*>(context);
    ++pool.calls;
    pool.tasks += count;
    std::vector<std::thread> threads;
    for (std::int64_t i = 0; i < count; ++i) {
      threads.emplace_back([&pool, task, data, i] {
        if (pool.rounds_up) std::fesetround(FE_UPWARD);
        task(data, i);
        if (::rounds_up() != pool.rounds_up) ++pool.changed_modes;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  [[nodiscard]] bp::Settings settings(int threads) {
    return {.threads = threads, .parallel_for = parallel_for, .parallel_for_context = this};
  }
};

// TSan does not see what orders oneTBB's threads, which are not compiled with it: there the team has a pool.
bp::Settings library_threads(int threads) {
#if defined(__SANITIZE_THREAD__)
  static Pool pool;
  return pool.settings(threads);
#else
  return {.threads = threads};
#endif
}

constexpr std::uint64_t kBig = std::uint64_t{1} << 40;  // bytes that are worth any number of threads

void expect_every_part_once(const Team& team, std::int64_t parts) {
  std::vector<std::atomic<int>> visits(static_cast<std::size_t>(parts));
  std::vector<std::atomic<int>> in_slot(static_cast<std::size_t>(team.width()));
  std::atomic<int> wrong = 0;
  team.run(parts, [&](std::int64_t part, int slot) {
    if (slot < 0 || slot >= team.width() || in_slot[static_cast<std::size_t>(slot)]++ != 0) ++wrong;
    ++visits[static_cast<std::size_t>(part)];
    std::this_thread::yield();
    --in_slot[static_cast<std::size_t>(slot)];
  });
  EXPECT_EQ(wrong, 0) << "a slot is out of range or was shared";
  for (const auto& count : visits) ASSERT_EQ(count, 1);
}

TEST(Team, RunsEveryPartOnceAndSharesNoSlot) {
  for (const int threads : {1, 2, 3, 7}) {
    Pool pool;
    const Team own(library_threads(threads));
    const Team hosted(pool.settings(threads));
    for (const std::int64_t parts : {0, 1, 2, 3, 8, 100, 1000}) {
      expect_every_part_once(own, parts);
      expect_every_part_once(hosted, parts);
    }
  }
}

TEST(Team, ServesManyCallersAtOnce) {
  const Team team(library_threads(3));
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) expect_every_part_once(team, 20);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(Team, ItemsAreCoveredByConsecutiveRanges) {
  for (const int threads : {1, 2, 3, 7}) {
    const Team team(library_threads(threads));
    for (const std::int64_t items : {0, 1, 2, 5, 27, 28, 29, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(items));
      team.run_items(items, kBig, [&](std::int64_t first, std::int64_t last, int) {
        for (std::int64_t i = first; i < last; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count, 1) << items << " items, " << threads << " threads";
    }
  }
}

TEST(Team, SmallWorkIsOnePart) {
  const Team one(library_threads(1));
  const Team four(library_threads(4));
  EXPECT_EQ(one.parts(1000, kBig), 1);
  EXPECT_EQ(four.parts(1000, 0), 1);
  EXPECT_EQ(four.parts(1000, 1024), 1);
  EXPECT_EQ(four.parts(0, kBig), 0);
  EXPECT_EQ(four.parts(1, kBig), 1);
  EXPECT_EQ(four.parts(3, kBig), 3);
  EXPECT_GT(four.parts(1000, kBig), 4) << "a slow thread holds nobody up";
}

TEST(Team, AsksTheHostForNoMoreThanItsThreads) {
  Pool pool;
  const Team team(pool.settings(3));
  team.run(1, [](std::int64_t, int) {});
  EXPECT_EQ(pool.calls, 0) << "one part needs no other thread";
  team.run(2, [](std::int64_t, int) {});
  EXPECT_EQ(pool.calls, 1);
  EXPECT_EQ(pool.tasks, 2);
  team.run(100, [](std::int64_t, int) {});
  EXPECT_EQ(pool.calls, 2);
  EXPECT_EQ(pool.tasks, 2 + 3);
  const Team alone(pool.settings(1));
  alone.run(100, [](std::int64_t, int) {});
  EXPECT_EQ(pool.calls, 2);
}

// A host may run the tasks one after the other, in any order, on the calling thread.
TEST(Team, TasksMayRunInTurn) {
  const auto backwards = [](void*, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
    for (std::int64_t i = count; i-- > 0;) task(data, i);
  };
  expect_every_part_once(Team({.threads = 4, .parallel_for = backwards}), 10);
}

TEST(Team, EveryThreadHasTheContractsFloatingPointMode) {
  Pool pool;
  pool.rounds_up = true;
  const Team hosted(pool.settings(3));
  const Team own(library_threads(3));
  std::fesetround(FE_UPWARD);
  std::atomic<int> wrong = 0;
  const auto body = [&](std::int64_t, int) {
    if (rounds_up()) ++wrong;
    std::this_thread::yield();
  };
  hosted.run(50, body);
  own.run(50, body);
  const bool put_back = rounds_up();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(put_back) << "the caller has its mode again";
  EXPECT_EQ(pool.changed_modes, 0) << "and so have the pool's threads";
}

}  // namespace
