// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include "buffer.h"
#include "check.h"
#include "embedded_workloads.h"
#include "floor.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <utility>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

// ---- Memory ----------------------------------------------------------------------------------------------

// Pages of their own, touched before anything is timed.
class Memory {
 public:
  explicit Memory(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(mapped);
    std::memset(data_, 1, size);
  }
  ~Memory() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory& operator=(Memory&&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

std::size_t byte_size(const tools::TensorSpec& spec) {
  return spec.absent ? 0 : static_cast<std::size_t>(tools::element_count(spec.sizes)) * tools::dtype_size(spec.dtype);
}

// Small reals of both signs in any type: never NaN, and sums stay finite. Bits by a multiplicative generator.
void fill(const tools::TensorSpec& spec, std::span<std::byte> bytes, std::uint64_t seed) {
  const tools::TensorSpec sample{spec.name, spec.dtype, {4096}, {1}, false};
  const tools::Dense values = tools::random_values(sample, tools::Fill::reals, seed, 1);
  const std::size_t element = tools::dtype_size(spec.dtype);
  std::uint64_t state = seed * 2 + 1;
  for (std::size_t at = 0; at + element <= bytes.size(); at += element) {
    state *= 6364136223846793005u;
    std::memcpy(bytes.data() + at, &values.bits[state >> 52], element);
  }
}

// The tensors of one problem in memory, packed in their layout.
struct BufferSet {
  std::vector<Memory> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;

  explicit BufferSet(const tools::Tensors& specs) {
    for (const tools::TensorSpec& spec : specs.inputs) inputs.emplace_back(byte_size(spec));
    for (const tools::TensorSpec& spec : specs.outputs) outputs.emplace_back(byte_size(spec));
    for (const Memory& memory : inputs) in.push_back(memory.data());
    for (const Memory& memory : outputs) out.push_back(memory.data());
  }
};

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

// Stored winners are those of a forward pass over some x.
void fill_winners(const tools::Problem& problem, std::int32_t dtype, const BufferSet& set, std::size_t slot) {
  tools::Problem forward = problem;
  forward.kind = BP_MAX_POOL;
  const tools::Tensors specs = tools::tensors(forward, dtype);
  const tools::CreateResult created = tools::try_create(forward, specs, {});
  if (!created.op) throw tools::UsageError(created.error);
  BufferSet own(specs);
  fill(specs.inputs[0], own.inputs[0].bytes(), 7);
  own.out[1] = set.inputs[slot].data();
  std::vector<std::max_align_t> workspace = workspace_for(created.op.get());
  run(created.op.get(), own, workspace);
}

void fill_inputs(const tools::Problem& problem, std::int32_t dtype, const tools::Tensors& specs, const BufferSet& set) {
  for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
    if (specs.inputs[i].absent) continue;
    if (specs.inputs[i].name == "winners") {
      fill_winners(problem, dtype, set, i);
    } else {
      fill(specs.inputs[i], set.inputs[i].bytes(), i + 3);
    }
  }
}

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

std::string verify(const tools::Problem& problem, std::int32_t dtype, const bp_operator* op,
                   const tools::Tensors& specs, const BufferSet& set, const Settings& settings) {
  const tools::Problem small = shrunk(problem);
  const tools::CreateResult created = tools::try_create(small, tools::tensors(small, dtype), settings.create);
  if (!created.op) return created.error;
  if (std::string wrong = tools::check_problem(small, dtype, created.op.get()); !wrong.empty()) return wrong;
  if (std::string_view(bp_operator_implementation(op)) == "reference") return {};

  // At full size the reference is the judge.
  tools::CreateOptions options;
  options.implementation = "reference";
  const tools::CreateResult reference = tools::try_create(problem, specs, options);
  if (!reference.op) return reference.error;
  BufferSet expected(specs);
  expected.in = set.in;
  std::vector<std::max_align_t> workspace = workspace_for(op);
  std::vector<std::max_align_t> reference_workspace = workspace_for(reference.op.get());
  run(op, set, workspace);
  run(reference.op.get(), expected, reference_workspace);
  for (std::size_t i = 0; i < set.outputs.size(); ++i) {
    const auto found = set.outputs[i].bytes();
    if (!found.empty() && std::memcmp(found.data(), expected.outputs[i].data(), found.size()) != 0) {
      return fmt::format("{} differs from the reference", specs.outputs[i].name);
    }
  }
  return {};
}

// ---- Timing ----------------------------------------------------------------------------------------------

// What the kernel says of the first processor's caches; what the C library says is wrong on some virtual machines.
std::size_t last_level_cache() {
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::size_t kilobytes = 0;
    if (file >> kilobytes) largest = std::max(largest, kilobytes << 10);
  }
  constexpr std::size_t kUnknown = std::size_t{32} << 20;
  return largest > 0 ? largest : kUnknown;
}

// The operator and both floors in turn, so that whatever the machine is doing meanwhile happens to all three.
Timing time_sets(const std::vector<BufferSet>& sets, const Settings& settings,
                 const std::function<void(const BufferSet&)>& work) {
  std::vector<double> own, ordinary, past_cache;
  std::size_t next = 0;
  const auto next_set = [&]() -> const BufferSet& { return sets[next++ % sets.size()]; };
  const auto floor = [&](const BufferSet& set, Stores stores) {
    std::vector<std::span<const std::byte>> in;
    std::vector<std::span<std::byte>> out;
    for (const Memory& memory : set.inputs) in.emplace_back(memory.bytes());
    for (const Memory& memory : set.outputs) out.emplace_back(memory.bytes());
    move_bytes(in, out, settings.floor_threads, stores);
  };
  for (const BufferSet& set : sets) work(set);
  double spent = 0;
  constexpr std::size_t kMostRepetitions = 200;
  const auto goes_on = [&] {
    constexpr std::size_t kLeast = 3;
    constexpr double kPatience = 10e9;  // a slow operator's median needs no five runs
    if (own.size() < kLeast) return true;
    if (own.size() < static_cast<std::size_t>(settings.least_repetitions)) return spent < kPatience;
    return spent < settings.seconds * 1e9 && own.size() < kMostRepetitions;
  };
  while (goes_on()) {
    const BufferSet& a = next_set();
    own.push_back(nanoseconds([&] { work(a); }));
    spent += own.back();
    const BufferSet& b = next_set();
    ordinary.push_back(nanoseconds([&] { floor(b, Stores::ordinary); }));
    const BufferSet& c = next_set();
    past_cache.push_back(nanoseconds([&] { floor(c, Stores::non_temporal); }));
  }
  const double median = quantile(own, 0.5);
  return {.median_ns = median,
          .spread = (quantile(own, 0.75) - quantile(own, 0.25)) / median,
          .floor_ns = std::min(quantile(ordinary, 0.5), quantile(past_cache, 0.5)),
          .repetitions = static_cast<int>(own.size())};
}

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = [] {
    std::vector<Workload> parsed;
    for (const auto& [section, problem] : tools::parse_problems(kEmbeddedWorkloads))
      parsed.push_back({section, problem});
    return parsed;
  }();
  return all;
}

Result measure(const tools::Problem& problem, std::int32_t dtype, const Settings& settings) {
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
                .threads = settings.floor_threads};
  bp_operator_bytes(op, &result.bytes);

  const std::size_t cache = last_level_cache();
  std::vector<BufferSet> sets;
  const std::size_t wanted = std::clamp<std::size_t>(2 * cache / std::max<std::uint64_t>(result.bytes, 1) + 1, 1, 64);
  for (std::size_t i = 0; i < wanted; ++i) {
    sets.emplace_back(specs);
    fill_inputs(problem, dtype, specs, sets.back());
  }
  result.difference = verify(problem, dtype, op, specs, sets.front(), settings);
  result.verified = result.difference.empty();
  if (!result.verified) return result;

  std::vector<std::max_align_t> workspace = workspace_for(op);
  const auto work = [&](const BufferSet& set) { run(op, set, workspace); };
  result.cold = time_sets(sets, settings, work);
  if (result.bytes < cache) {
    while (sets.size() > 1) sets.pop_back();
    result.hot = time_sets(sets, settings, work);
    result.judged_hot = true;
  }
  return result;
}

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
  m.last_level_cache = last_level_cache();
  return m;
}

CopyLimits copy_limits(int threads) {
  const std::size_t size = std::max<std::size_t>(std::size_t{256} << 20, 4 * last_level_cache());
  const Memory from(size), to(size);
  const std::span<const std::byte> in[] = {from.bytes()};
  const std::span<std::byte> out[] = {to.bytes()};
  const auto rate = [&](Stores stores) {
    std::vector<double> times;
    for (int i = 0; i < 7; ++i) times.push_back(nanoseconds([&] { move_bytes(in, out, threads, stores); }));
    return 2 * static_cast<double>(size) / quantile(times, 0.5);
  };
  return {rate(Stores::ordinary), rate(Stores::non_temporal)};
}

}  // namespace bench
