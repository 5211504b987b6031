// SPDX-License-Identifier: Apache-2.0
// What the C ABI promises beside results: no allocation in run, many threads, any floating-point mode of the host.
#include "check.h"
#include "support.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <thread>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;  // the sanitizer owns malloc
#else
constexpr bool kCountsAllocations = true;

namespace {
std::atomic<std::int64_t> allocations = 0;  // on all threads
}

// The program's own malloc family comes before the C library's, for the shared library too.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
}
#endif

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderTsan = true;
#else
constexpr bool kUnderTsan = false;
#endif

// A host's pool: a new thread for each task, with a floating-point mode of its own where there is one to set.
struct Pool {
  std::atomic<int> calls = 0;
  std::atomic<int> changed_modes = 0;
  unsigned mode = 0;  // 0: as it is

  static void parallel_for(void* context, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
    Pool& pool = *static_cast<Pool*>(context);
    ++pool.calls;
    std::vector<std::thread> threads;
    for (std::int64_t i = 0; i < count; ++i) threads.emplace_back([&pool, task, data, i] { pool.run(task, data, i); });
    for (std::thread& thread : threads) thread.join();
  }
  void use_in(tools::CreateOptions& options) {
    options.parallel_for = parallel_for;
    options.parallel_for_context = this;
  }

 private:
  void run(void (*task)(void*, std::int64_t), void* data, std::int64_t i) {
#if defined(__SSE2__)
    if (mode != 0) _mm_setcsr(mode);
    task(data, i);
    if (mode != 0 && (_mm_getcsr() & 0xffc0u) != (mode & 0xffc0u)) ++changed_modes;
#else
    task(data, i);
#endif
  }
};

// TSan does not see what orders oneTBB's threads, which are not compiled with it: there operators run in a pool.
tools::CreateOptions visible(tools::CreateOptions options) {
  static Pool pool;
  if (kUnderTsan && options.parallel_for == nullptr) pool.use_in(options);
  return options;
}

// A problem, created, with memory bound to it.
class Bound {
 public:
  Bound(const tools::Problem& problem, std::int32_t dtype, const tools::CreateOptions& options = {})
      : specs_(tools::tensors(problem, dtype)), created_(tools::try_create(problem, specs_, visible(options))) {
    EXPECT_TRUE(created_.op) << created_.error;
    std::uint64_t salt = 0;
    for (const tools::TensorSpec& spec : specs_.inputs) {
      add(spec, in_);
      if (spec.absent) continue;
      // Tap 0 of every window is a right winner here: no window is padded. So are flat indices that are none.
      const bool winners = spec.name == "winners" || spec.name == "from";
      tools::Dense values = tools::random_values(spec, tools::Fill::reals, problem.seed, ++salt);
      if (winners) std::fill(values.bits.begin(), values.bits.end(), spec.dtype == BP_U8 ? 0 : ~std::uint64_t{0});
      memory_.back()->store(values);
    }
    first_output_ = memory_.size();
    for (const tools::TensorSpec& spec : specs_.outputs) add(spec, out_);
    std::size_t bytes = 0;
    EXPECT_EQ(bp_operator_workspace_size(op(), &bytes), BP_OK);
    workspace_.resize(bytes / sizeof(std::max_align_t) + 1);
  }
  [[nodiscard]] const bp_operator* op() const { return created_.op.get(); }
  bp_status run() { return run_with(op()); }
  bp_status run_with(const bp_operator* op) {
    return bp_operator_run(op, in_.data(), in_.size(), out_.data(), out_.size(), workspace_.data(), nullptr);
  }
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> outputs() const {
    std::vector<std::vector<std::uint64_t>> bits;
    for (std::size_t i = first_output_; i < memory_.size(); ++i) bits.push_back(memory_[i]->load().bits);
    return bits;
  }

 private:
  template <class Pointers>
  void add(const tools::TensorSpec& spec, Pointers& pointers) {
    memory_.push_back(std::make_unique<tools::Buffer>(spec, tools::Buffer::Against::front, std::byte{0}));
    pointers.push_back(memory_.back()->data());
  }
  tools::Tensors specs_;
  tools::CreateResult created_;
  std::vector<std::unique_ptr<tools::Buffer>> memory_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::size_t first_output_ = 0;
  std::vector<std::max_align_t> workspace_;
};

// Each large enough for several threads, and (where pools and resamplings scale to it) still quick under a sanitizer.
const char* const kOfEachKind[] = {
    "relu --x-shape 256,1031",
    "relu-grad --x-shape 256,1031",
    "max-pool --x-shape 4,32,33,33 --window 3 --strides 2 --winners compact",
    "max-pool-grad --x-shape 4,32,33,33 --window 3 --strides 2",
    "resample --x-shape 24,40,40 --y-shape 24,80,80",
    "resample-grad --x-shape 24,40,40 --y-shape 24,80,80 --convention align-corners",
    "slice --x-shape 600,512 --strides -1,2",
    "slice-grad --x-shape 600,512 --strides -1,2",
    "max-pool-grad --x-shape 4,32,33,33 --window 3 --strides 2 --winners compact",
    "max-pool-grad --x-shape 4,32,33,33 --window 3 --strides 2 --winners flat",
    "convert-winners --x-shape 4,128,33,33 --window 3 --strides 2 --winners-kind compact --winners flat",
};
// The same kinds with work for one thread only.
const char* const kSmallOfEachKind[] = {
    "relu --x-shape 4,33",
    "relu-grad --x-shape 4,33",
    "max-pool --x-shape 2,3,9,9 --window 3 --strides 2 --winners compact",
    "max-pool-grad --x-shape 2,3,9,9 --window 3 --strides 2",
    "resample --x-shape 2,5,7 --y-shape 2,9,11",
    "resample-grad --x-shape 2,5,7 --y-shape 2,9,11 --convention align-corners",
    "slice --x-shape 5,8 --strides -1,2",
    "slice-grad --x-shape 5,8 --strides -1,2",
    "max-pool-grad --x-shape 2,3,9,9 --window 3 --strides 2 --winners compact",
    "max-pool-grad --x-shape 2,3,9,9 --window 3 --strides 2 --winners flat",
    "convert-winners --x-shape 2,3,9,9 --window 3 --strides 2 --winners-kind compact --winners flat",
};

// The ways to run a problem on the CPU: every implementation that takes it, with each of these numbers of threads.
std::vector<tools::CreateOptions> ways(const tools::Problem& problem, std::int32_t dtype, std::vector<int> threads) {
  std::vector<tools::CreateOptions> result;
  for (const std::string& name : tools::implementations_of(problem.kind, BP_DEVICE_CPU)) {
    for (const int count : threads) {
      tools::CreateOptions options;
      options.implementation = name;
      options.threads = count;
      if (tools::try_create(problem, tools::tensors(problem, dtype), options).op) result.push_back(options);
    }
  }
  return result;
}

std::string name_of(const tools::CreateOptions& options) {
  return options.implementation + ", " + std::to_string(options.threads) + " threads";
}

// Allocations of one run, on all threads: the fewest of several, since a pool's threads may do something of their own.
TEST(Run, AllocatesNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer owns malloc";
#else
  static_assert(kCountsAllocations);
  const auto check = [](const char* line) {
    const auto problem = tools::parse_problem(line);
    std::vector<std::int32_t> dtypes{BP_F64, BP_F32, BP_F16, BP_BF16};
    if (problem.kind == BP_CONVERT_WINNERS) dtypes = {tools::default_dtype(problem)};
    for (const std::int32_t dtype : dtypes) {
      for (const tools::CreateOptions& options : ways(problem, dtype, {1, 2})) {
        Bound bound(problem, dtype, options);
        std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
        for (int i = 0; i < 10 && fewest > 0; ++i) {
          const std::int64_t before = allocations;
          ASSERT_EQ(bound.run(), BP_OK) << bp_last_error();
          if (i > 0) fewest = std::min(fewest, allocations - before);  // the first warms up
        }
        EXPECT_EQ(fewest, 0) << line << " " << tools::dtype_name(dtype) << " " << name_of(options);
      }
    }
  };
  for (const char* line : kSmallOfEachKind) check(line);
  for (const char* line : kOfEachKind) check(line);
  const std::int64_t before = allocations;
  std::free(std::malloc(1));
  EXPECT_EQ(allocations, before + 1) << "the counter counts";
#endif
}

// Eight callers, each with tensors and a workspace of its own; each run is itself shared among threads.
TEST(Run, OneOperatorServesManyThreads) {
  for (const char* line : kOfEachKind) {
    const auto problem = tools::parse_problem(line);
    const std::int32_t dtype = tools::default_dtype(problem);
    for (const tools::CreateOptions& options : ways(problem, dtype, {1, 3})) {
      Bound shared(problem, dtype, options);
      ASSERT_EQ(shared.run(), BP_OK);
      const auto expected = shared.outputs();
      std::atomic<int> wrong = 0;
      std::vector<std::thread> threads;
      for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
          Bound own(problem, dtype, options);
          for (int i = 0; i < 3; ++i) {
            if (own.run_with(shared.op()) != BP_OK || own.outputs() != expected) ++wrong;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(wrong, 0) << line << " " << name_of(options);
    }
  }
}

// ---- The caller's own threads ----------------------------------------------------------------------------

// Whether the host's parallel-for was called; the results must be those of one thread.
bool wakes_the_pool(const char* line, int threads) {
  const auto problem = tools::parse_problem(line);
  const std::int32_t dtype = tools::default_dtype(problem);
  tools::CreateOptions options;
  options.threads = 1;
  Bound alone(problem, dtype, options);
  Pool pool;
  options.threads = threads;
  pool.use_in(options);
  Bound shared(problem, dtype, options);
  EXPECT_EQ(alone.run(), BP_OK);
  EXPECT_EQ(shared.run(), BP_OK);
  EXPECT_EQ(shared.outputs(), alone.outputs()) << line;
  return pool.calls > 0;
}

TEST(ParallelFor, RunsLargeWorkWithTheSameBits) {
  for (const char* line : kOfEachKind) {
    const auto problem = tools::parse_problem(line);
    const bool only_reference = tools::implementations_of(problem.kind, BP_DEVICE_CPU).size() == 1;
    EXPECT_EQ(wakes_the_pool(line, 4), !only_reference) << line;
  }
}
TEST(ParallelFor, IsNotCalledForSmallWork) {
  for (const char* line : kSmallOfEachKind) EXPECT_FALSE(wakes_the_pool(line, 4)) << line;
  EXPECT_FALSE(wakes_the_pool("relu --x-shape 128", 4)) << "1 KiB";
}
TEST(ParallelFor, IsNotCalledWhereOneThreadIsAskedFor) {
  for (const char* line : kOfEachKind) EXPECT_FALSE(wakes_the_pool(line, 1)) << line;
}

// ---- Layout ----------------------------------------------------------------------------------------------

// Every named problem that does not speak of strides itself, in channels-last memory.
TEST(Layout, ChannelsLastGivesTheBitsOfPacked) {
  int compared = 0;
  for (const tools::Problem& packed : tools::named_problems()) {
    const bool own_strides = !(packed.x_strides.empty() && packed.y_strides.empty() && packed.dx_strides.empty() &&
                               packed.dy_strides.empty() && packed.winners_strides.empty());
    if (own_strides || packed.nhwc || packed.rank() < 3 || packed.corrupt_winners) continue;
    tools::Problem nhwc = packed;
    nhwc.nhwc = true;
    const std::int32_t dtype = tools::default_dtype(packed);
    Bound a(packed, dtype);
    Bound b(nhwc, dtype);
    ASSERT_EQ(a.run(), b.run()) << packed.name;
    EXPECT_EQ(a.outputs(), b.outputs()) << packed.name;
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

#if defined(__SSE2__)
class HostMode : public testing::TestWithParam<unsigned> {
 protected:
  HostMode() : saved_(_mm_getcsr()) {}
  ~HostMode() override { _mm_setcsr(saved_); }
  unsigned saved_;
};

// Subnormal gradients and weights that round: everything that flush-to-zero or another rounding would change. The
// threads of the host's pool have the same mode as the caller.
TEST_P(HostMode, ChangesNoBit) {
  for (const char* line : {"resample-grad --x-shape 3,7 --y-shape 3,40 --scales 1,0.3333333333333333 --fill reals",
                           "resample --x-shape 3,7 --y-shape 3,40 --convention align-corners",
                           "max-pool-grad --x-shape 1,2,9,9 --window 3 --strides 1",
                           "resample-grad --x-shape 24,40,40 --y-shape 24,80,80 --convention align-corners",
                           "resample --x-shape 24,40,40 --y-shape 24,80,80 --convention align-corners",
                           "max-pool-grad --x-shape 4,32,25,25 --window 3 --strides 1"}) {
    for (const std::int32_t dtype : {BP_F64, BP_F32, BP_F16, BP_BF16}) {
      const auto problem = tools::parse_problem(line);
      const tools::Tensors specs = tools::tensors(problem, dtype);
      std::vector<tools::Dense> inputs;
      for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
        inputs.push_back(tools::random_values(specs.inputs[i], tools::Fill::mixed, 2, i));
        for (std::uint64_t& bits : inputs.back().bits) {  // the least exponents: sums of subnormals
          if (dtype == BP_F64) bits &= 0x801fffffffffffffu;
          if (dtype == BP_F32) bits &= 0x80ffffffu;
          if (dtype == BP_F16) bits &= 0x87ffu;
          if (dtype == BP_BF16) bits &= 0x80ffu;
        }
      }
      tools::CreateOptions reference;
      reference.implementation = "reference";
      const auto expected = support::run(problem, dtype, inputs, reference);
      for (tools::CreateOptions options : ways(problem, dtype, {1, 3})) {
        Pool pool;
        pool.mode = GetParam();
        pool.use_in(options);
        _mm_setcsr(GetParam());
        const auto found = support::run(problem, dtype, inputs, options);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(saved_);
        ASSERT_EQ(found.status, BP_OK);
        EXPECT_TRUE(found.outputs[0].bits == expected.outputs[0].bits)
            << line << " " << tools::dtype_name(dtype) << " " << name_of(options);
        EXPECT_EQ(after & 0xffc0u, GetParam() & 0xffc0u) << "the host's mode is put back";
        EXPECT_EQ(pool.changed_modes, 0) << "and that of its threads";
      }
    }
  }
}
constexpr unsigned kMasked = 0x1f80, kFlush = 0x8000, kDenormalsAreZero = 0x0040, kDown = 0x2000, kUp = 0x4000,
                   kTowardZero = 0x6000;
INSTANTIATE_TEST_SUITE_P(Modes, HostMode,
                         testing::Values(kMasked | kFlush | kDenormalsAreZero, kMasked | kDown, kMasked | kUp,
                                         kMasked | kTowardZero | kFlush));
#endif

TEST(Version, IsThatOfTheHeader) {
  EXPECT_EQ(bp_version(), BP_VERSION_MAJOR * 10000u + BP_VERSION_MINOR * 100u + BP_VERSION_PATCH);
}

TEST(Query, TellsBytesWorkspaceAndImplementation) {
  const auto problem = tools::parse_problem("max-pool-grad --x-shape 2,3,8,8 --window 2 --winners compact");
  const tools::Tensors specs = tools::tensors(problem, BP_F16);
  const auto created = tools::try_create(problem, specs, {});
  ASSERT_TRUE(created.op) << created.error;
  std::uint64_t bytes = 0;
  std::size_t workspace = 0;
  EXPECT_EQ(bp_operator_bytes(created.op.get(), &bytes), BP_OK);
  EXPECT_EQ(bytes, 2u * (2 * 3 * 8 * 8) + 2u * (2 * 3 * 4 * 4) + 1u * (2 * 3 * 4 * 4)) << "X e + Y e + Y";
  EXPECT_STREQ(bp_operator_implementation(created.op.get()), "tiles");
  EXPECT_STREQ(bp_operator_name(created.op.get()), "max_pool_grad");
  EXPECT_EQ(bp_operator_refusal_count(created.op.get()), 3u)
      << "scatter is for wider windows, turned for more channels, packed for other strides";
  EXPECT_EQ(bp_operator_check(created.op.get(), nullptr, nullptr), BP_OK);

  tools::CreateOptions options;
  options.implementation = "reference";
  const auto reference = tools::try_create(problem, specs, options);
  ASSERT_TRUE(reference.op) << reference.error;
  EXPECT_STREQ(bp_operator_implementation(reference.op.get()), "reference");
  EXPECT_EQ(bp_operator_workspace_size(reference.op.get(), &workspace), BP_OK);
  EXPECT_EQ(workspace, 8u * 8 * sizeof(float)) << "one plane of accumulators";
}

TEST(Query, BytesAreTheMinimumOfEachOperator) {
  const auto bytes = [](const char* line) {
    const auto problem = tools::parse_problem(line);
    const auto created = tools::try_create(problem, tools::tensors(problem, BP_F32), {});
    std::uint64_t result = 0;
    EXPECT_EQ(bp_operator_bytes(created.op.get(), &result), BP_OK);
    return result;
  };
  EXPECT_EQ(bytes("relu --x-shape 10"), 80u);
  EXPECT_EQ(bytes("relu-grad --x-shape 10"), 120u);
  EXPECT_EQ(bytes("relu-grad --x-shape 10,10 --dy-strides 0,0"), 804u) << "a broadcast element is read once";
  EXPECT_EQ(bytes("slice --x-shape 10 --strides 2"), 40u);
  EXPECT_EQ(bytes("slice-grad --x-shape 10 --strides 2"), 60u);
  EXPECT_EQ(bytes("max-pool --x-shape 1,1,8 --window 2 --winners compact"), 32u + 16 + 4);
  EXPECT_EQ(bytes("max-pool-grad --x-shape 1,1,8 --window 2"), 64u + 16);
  EXPECT_EQ(bytes("resample-grad --x-shape 8 --y-shape 16"), 96u);
}

}  // namespace
