// SPDX-License-Identifier: Apache-2.0
// The life of operators on a CUDA device: streams, graphs, threads, devices, what is reported. (That their bits are
// right is what `backpass check --device cuda` tells.)
#include "backends/cuda/divisor.h"
#include "device.h"
#include "problem.h"

#include <backpass/backpass.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

// ---- Division --------------------------------------------------------------------------------------------

template <class Unsigned>
void expect_exact(std::int64_t divisor, std::mt19937_64& random) {
  const bp::cuda::Divisor<Unsigned> by(divisor);
  const auto most = static_cast<Unsigned>(~Unsigned{0} >> 1);
  const auto d = static_cast<Unsigned>(divisor);
  std::vector<Unsigned> numbers{0,
                                1,
                                static_cast<Unsigned>(d - 1),
                                d,
                                most,
                                static_cast<Unsigned>(most - 1),
                                static_cast<Unsigned>(most / d * d),
                                static_cast<Unsigned>(most / d * d - 1)};
  for (int i = 0; i < 50; ++i) numbers.push_back(static_cast<Unsigned>(random()) >> (1 + random() % 30));
  for (const Unsigned n : numbers) {
    if (n > most) continue;
    ASSERT_EQ(by.quotient(n), n / d) << +n << " / " << divisor;
    Unsigned rest = n;
    ASSERT_EQ(by.split(rest), n % d) << +n << " % " << divisor;
    ASSERT_EQ(rest, n / d);
  }
}

TEST(Divisor, IsExact) {
  std::mt19937_64 random(1);
  for (std::int64_t d = 1; d < 3000; ++d) {
    expect_exact<std::uint32_t>(d, random);
    expect_exact<std::uint64_t>(d, random);
  }
  for (int i = 0; i < 20000; ++i) {
    expect_exact<std::uint32_t>(1 + static_cast<std::int64_t>(random() % 0x7fffffff), random);
    expect_exact<std::uint64_t>(1 + static_cast<std::int64_t>((random() >> 1) >> (random() % 40)), random);
  }
  for (int bit = 0; bit < 62; ++bit) {
    for (const std::int64_t d : {(std::int64_t{1} << bit) - 1, std::int64_t{1} << bit, (std::int64_t{1} << bit) + 1}) {
      if (d < 1) continue;
      if (d < 0x7fffffff) expect_exact<std::uint32_t>(d, random);
      expect_exact<std::uint64_t>(d, random);
    }
  }
}

// ---- Operators -------------------------------------------------------------------------------------------

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (bp_device_count(BP_DEVICE_CUDA) == 0) GTEST_SKIP() << "no CUDA device can be used";
  }
};

void require(cudaError_t status) { ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status); }

struct Line {
  std::string text;  // of a problem with packed tensors
  std::int32_t dtype = BP_F32;
};

tools::CreateResult create(const Line& line, std::int32_t device_kind = BP_DEVICE_CUDA) {
  tools::Problem problem = tools::parse_problem(line.text);
  tools::CreateOptions options;
  options.device = {device_kind, 0};
  return tools::try_create(problem, tools::tensors(problem, line.dtype), options);
}

// A problem on the device, and on the CPU beside it.
class Work {
 public:
  explicit Work(const Line& line, std::uint32_t seed = 1) : line_(line) {
    const tools::Problem problem = tools::parse_problem(line.text);
    const tools::Tensors specs = tools::tensors(problem, line.dtype);
    std::mt19937 random(seed);
    for (const tools::TensorSpec& spec : specs.inputs) {
      std::vector<std::byte> bytes(spec.absent ? 0 : bytes_of(spec));
      for (std::size_t i = 0; i + 4 <= bytes.size() && spec.dtype == BP_F32; i += 4) {
        const float v = static_cast<float>(static_cast<int>(random() % 1000) - 500) / 16;
        std::memcpy(&bytes[i], &v, sizeof v);
      }
      for (std::size_t i = 0; i + 2 <= bytes.size() && spec.dtype == BP_F16; i += 2) {
        const auto below_2 = static_cast<std::uint16_t>(random() & 0xbfff);
        std::memcpy(&bytes[i], &below_2, sizeof below_2);
      }
      if (spec.dtype == BP_U8) std::ranges::generate(bytes, [&] { return std::byte(random() % 4); });
      host_in_.push_back(bytes);
      in_.emplace_back(bytes.size());
      if (!bytes.empty()) in_.back().write(bytes);
    }
    for (const tools::TensorSpec& spec : specs.outputs) {
      host_out_.emplace_back(spec.absent ? 0 : bytes_of(spec));
      out_.emplace_back(host_out_.back().size());
    }
    tools::CreateResult created = create(line);
    EXPECT_TRUE(created.op) << created.error;
    op_ = std::move(created.op);
    std::size_t size = 0;
    bp_operator_workspace_size(op_.get(), &size);
    workspace_.emplace_back(size);
  }

  [[nodiscard]] std::vector<std::byte>& input(std::size_t i) { return host_in_[i]; }
  void upload() {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (!host_in_[i].empty()) in_[i].write(host_in_[i]);
    }
  }
  void run(void* stream) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const auto& m : in_) in.push_back(m.data());
    for (const auto& m : out_) out.push_back(m.data());
    EXPECT_EQ(bp_operator_run(op_.get(), in.data(), in.size(), out.data(), out.size(), workspace(), stream), BP_OK)
        << bp_last_error();
  }
  bp_status check(void* stream) { return bp_operator_check(op_.get(), workspace(), stream); }
  void destroy() { op_.reset(); }
  void spoil_output() { out_[0].write(std::vector<std::byte>(out_[0].size(), std::byte{0xa5})); }

  // What the CPU makes of the same inputs, bit for bit.
  void expect_result() {
    const tools::CreateResult cpu = create(line_, BP_DEVICE_CPU);
    ASSERT_TRUE(cpu.op) << cpu.error;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const auto& m : host_in_) in.push_back(m.empty() ? nullptr : m.data());
    for (auto& m : host_out_) out.push_back(m.empty() ? nullptr : m.data());
    std::size_t size = 0;
    bp_operator_workspace_size(cpu.op.get(), &size);
    std::vector<std::max_align_t> workspace(size / sizeof(std::max_align_t) + 1);
    bp_operator_run(cpu.op.get(), in.data(), in.size(), out.data(), out.size(), workspace.data(), nullptr);
    std::vector<std::byte> found(out_[0].size());
    out_[0].read(found);
    EXPECT_TRUE(found == host_out_[0]) << line_.text;
  }

 private:
  static std::size_t bytes_of(const tools::TensorSpec& spec) {
    std::size_t bytes = tools::dtype_size(spec.dtype);
    for (const std::int64_t size : spec.sizes) bytes *= static_cast<std::size_t>(size);
    return bytes;
  }
  void* workspace() { return workspace_.front().data(); }

  Line line_;
  tools::OperatorPtr op_;
  std::vector<std::vector<std::byte>> host_in_, host_out_;
  std::vector<tools::DeviceMemory> in_, out_, workspace_;
};

// One of each kind: tables, two launches, a report, copies in bulk, none of these.
const std::vector<Line> kLines{
    {"relu-grad --x-shape 3,1000"},
    {"slice-grad --x-shape 4,33,65 --strides 1,2,-3"},
    {"resample-grad --x-shape 2,3,17,19 --y-shape 2,3,40,31"},
    {"resample-grad --x-shape 2,3,17,19 --y-shape 2,3,40,91", BP_F16},
    {"max-pool-grad --x-shape 2,3,21,23 --window 3 --strides 2"},
    {"max-pool-grad --x-shape 2,3,22,24 --window 2 --winners compact"},
    {"max-pool --x-shape 2,3,21,23 --window 3 --strides 1"},
    {"resample --x-shape 2,3,17,19 --y-shape 2,3,40,31"},
};

TEST_F(CudaTest, TheCallersDeviceStaysSelected) {
  int before = -1, after = -1;
  require(cudaGetDevice(&before));
  Work work(kLines.front());
  work.run(nullptr);
  require(cudaGetDevice(&after));
  EXPECT_EQ(before, after);
}

TEST_F(CudaTest, AnOrdinalThatIsNotThereIsUnsupported) {
  tools::Problem problem = tools::parse_problem(kLines.front().text);
  tools::CreateOptions options;
  options.device = {BP_DEVICE_CUDA, 1000};
  const tools::CreateResult created = tools::try_create(problem, tools::tensors(problem, BP_F32), options);
  EXPECT_EQ(created.status, BP_UNSUPPORTED);
  EXPECT_TRUE(created.error.starts_with("device: ordinal is 1000, expected below ")) << created.error;
}

TEST_F(CudaTest, AGraphRepeatsARun) {
  for (const Line& line : kLines) {
    Work work(line);
    const tools::DeviceStream stream;
    const auto handle = static_cast<cudaStream_t>(stream.handle());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    require(cudaStreamBeginCapture(handle, cudaStreamCaptureModeGlobal));
    work.run(handle);
    require(cudaStreamEndCapture(handle, &graph));
    require(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; ++i) {
      work.spoil_output();
      require(cudaGraphLaunch(executable, handle));
      stream.wait();
      work.expect_result();
    }
    require(cudaGraphExecDestroy(executable));
    require(cudaGraphDestroy(graph));
  }
}

TEST_F(CudaTest, CreateDuringCaptureIsRefused) {
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    for (const Line& line : kLines) {
      cudaStream_t stream = nullptr;
      cudaGraph_t graph = nullptr;
      require(cudaStreamCreateWithFlags(&stream, flags));
      require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      const tools::CreateResult created = create(line);
      EXPECT_EQ(created.status, BP_UNSUPPORTED) << line.text << " flags " << flags;
      EXPECT_NE(created.error.find("a stream is being captured into a graph"), std::string::npos) << created.error;
      (void)cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) require(cudaGraphDestroy(graph));
      (void)cudaGetLastError();
      require(cudaStreamDestroy(stream));
    }
  }
}

TEST_F(CudaTest, DestroyDoesNotDisturbACapture) {
  Work captured(kLines[2]), other(kLines[2]);
  const tools::DeviceStream stream;
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  cudaGraph_t graph = nullptr;
  require(cudaStreamBeginCapture(handle, cudaStreamCaptureModeGlobal));
  other.destroy();
  captured.run(handle);
  require(cudaStreamEndCapture(handle, &graph));
  require(cudaGraphDestroy(graph));
}

TEST_F(CudaTest, DestroyLeavesARunningKernelItsTables) {
  Work work({"resample-grad --x-shape 8,16,100,100 --y-shape 8,16,300,300"});
  const tools::DeviceStream stream;
  for (int i = 0; i < 30; ++i) work.run(stream.handle());
  work.destroy();
  for (int i = 0; i < 8; ++i) Work(kLines[2], 7);  // takes the memory, were it free
  stream.wait();
  work.expect_result();
}

TEST_F(CudaTest, ThreadsRunOnStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (const Line& line : kLines) {
        const tools::DeviceStream stream;
        Work work(line, t);
        for (int i = 0; i < 20; ++i) work.run(stream.handle());
        stream.wait();
        work.expect_result();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaTest, OneOperatorRunsFromManyThreads) {
  const tools::CreateResult created = create({"relu-grad --x-shape 1000,1000"});
  ASSERT_TRUE(created.op) << created.error;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const tools::DeviceStream stream;
      const std::vector<float> ones(1000000, 1.0f);
      const tools::DeviceMemory x(4000000), dy(4000000), dx(4000000);
      x.write(std::as_bytes(std::span(ones)));
      dy.write(std::as_bytes(std::span(ones)));
      const void* in[] = {x.data(), dy.data()};
      void* out[] = {dx.data()};
      for (int i = 0; i < 50; ++i)
        EXPECT_EQ(bp_operator_run(created.op.get(), in, 2, out, 1, nullptr, stream.handle()), BP_OK);
      stream.wait();
      std::vector<float> found(ones.size());
      dx.read(std::as_writable_bytes(std::span(found)));
      EXPECT_TRUE(found == ones);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaTest, WrongWinnersAreReportedWhenAskedFor) {
  Work work(kLines[5]);
  const tools::DeviceStream stream;
  work.run(stream.handle());
  EXPECT_EQ(work.check(stream.handle()), BP_OK);

  const std::vector<std::byte> right = work.input(2);
  work.input(2)[0] = work.input(2)[132 + 12] = std::byte{4};  // [0, 0, 0, 0] and, of 11 x 12 windows, [0, 1, 1, 0]
  work.upload();
  work.run(stream.handle());
  EXPECT_EQ(work.check(stream.handle()), BP_INVALID_ARGUMENT);
  EXPECT_STREQ(
      bp_last_error(),
      "max_pool_grad: winners: 2 are no tap of their window, the first at [0, 0, 0, 0], expected a tap or none");
  work.expect_result();

  work.input(2)[0] = right[0];
  work.upload();
  work.run(stream.handle());
  EXPECT_EQ(work.check(stream.handle()), BP_INVALID_ARGUMENT);
  EXPECT_STREQ(bp_last_error(),
               "max_pool_grad: winners: at [0, 1, 1, 0] is no tap of its window, expected a tap or none");

  work.input(2) = right;
  work.upload();
  work.run(stream.handle());
  EXPECT_EQ(work.check(stream.handle()), BP_OK) << bp_last_error();
  work.expect_result();
}

TEST_F(CudaTest, WrongWinnersOfDilatedWindowsAreFoundWhereTheyAre) {
  Work work(
      {"max-pool-grad --x-shape 1,4,9,8 --window 3 --strides 1 --dilations 2 --start-padding 1 --end-padding 1 "
       "--winners compact --nhwc"});
  std::ranges::fill(work.input(2), std::byte{4});  // the tap in the middle, which all windows have
  const tools::DeviceStream stream;
  for (const auto& [place, text] :
       {std::pair{((4 * 6) + 5) * 4 + 1, "[0, 1, 4, 5]"}, {((3 * 6) + 2) * 4 + 3, "[0, 3, 3, 2]"}}) {
    const std::byte right = std::exchange(work.input(2)[place], std::byte{9});
    work.upload();
    work.run(stream.handle());
    EXPECT_EQ(work.check(stream.handle()), BP_INVALID_ARGUMENT);
    EXPECT_EQ(bp_last_error(),
              "max_pool_grad: winners: at " + std::string(text) + " is no tap of its window, expected a tap or none");
    work.input(2)[place] = right;
  }
}

// The windows that no kernel is compiled for.
TEST_F(CudaTest, WrongWinnersOfAnyWindowsAreFoundWhereTheyAre) {
  struct Wrong {
    std::size_t place;
    std::byte tap;
    std::string text;
  };
  const auto expect_found = [](const std::string& line, std::byte tap_of_all, const std::vector<Wrong>& cases) {
    Work work({line});
    std::ranges::fill(work.input(2), tap_of_all);
    const tools::DeviceStream stream;
    work.upload();
    work.run(stream.handle());
    EXPECT_EQ(work.check(stream.handle()), BP_OK) << line;
    for (const Wrong& wrong : cases) {
      const std::byte right = std::exchange(work.input(2)[wrong.place], wrong.tap);
      work.upload();
      work.run(stream.handle());
      EXPECT_EQ(work.check(stream.handle()), BP_INVALID_ARGUMENT) << line;
      EXPECT_EQ(bp_last_error(),
                "max_pool_grad: winners: at " + wrong.text + " is no tap of its window, expected a tap or none");
      work.input(2)[wrong.place] = right;
    }
  };
  // 10 windows in a row. One winner is no tap; others are padding, behind the row and before it.
  expect_found(
      "max-pool-grad --x-shape 2,3,28 --window 4 --strides 3 --start-padding 2 --end-padding 1 --winners compact",
      std::byte{2},
      {{57, std::byte{4}, "[1, 2, 7]"}, {59, std::byte{3}, "[1, 2, 9]"}, {30, std::byte{1}, "[1, 0, 0]"}});
  // 6 x 9 windows of 5 x 6. Winners are padding above, below, and before the rows.
  expect_found(
      "max-pool-grad --x-shape 1,2,8,11 --window 5,6 --strides 1 --start-padding 1 --end-padding 1,2 --winners compact",
      std::byte{14},
      {{57, std::byte{5}, "[0, 1, 0, 3]"}, {53, std::byte{29}, "[0, 0, 5, 8]"}, {45, std::byte{0}, "[0, 0, 5, 0]"}});
}

}  // namespace
