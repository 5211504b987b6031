// SPDX-License-Identifier: Apache-2.0
#include "peers/peers.h"

#include "core/half.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

namespace bench {

namespace {

// ---- A problem as a line ---------------------------------------------------------------------------------

std::string_view convention_name(const tools::Problem& p) {
  static const std::map<std::int32_t, std::string_view> names{
      {BP_HALF_PIXEL, "half-pixel"}, {BP_ALIGN_CORNERS, "align-corners"}, {BP_ASYMMETRIC, "asymmetric"}};
  return names.at(p.convention);
}

std::string_view rounding_name(const tools::Problem& p) {
  static const std::map<std::int32_t, std::string_view> names{
      {BP_ROUND_INCREASING, "increasing"}, {BP_ROUND_DECREASING, "decreasing"}, {BP_ROUND_HALF_UP, "half-up"}};
  return names.at(p.rounding);
}

// Views of the user's own strides, and resamplings by the user's own scales, are nothing that a peer has.
bool is_ordinary(const tools::Problem& p) {
  for (const tools::Ints* strides : {&p.x_strides, &p.dx_strides, &p.y_strides, &p.dy_strides, &p.winners_strides}) {
    if (!strides->empty()) return false;
  }
  return p.scales.empty() && p.input_offsets.empty() && p.output_offsets.empty() && p.tables.empty();
}

std::string parameters(const tools::Problem& p) {
  std::string line;
  const auto add = [&](std::string_view key, const tools::Ints& values) {
    line += fmt::format(" {}={}", key, fmt::join(values, ","));
  };
  add("x_shape", p.x_shape);
  add("y_shape", p.y_shape);
  if (tools::is_pooling(p.kind)) {
    add("window", p.window);
    add("start_padding", p.start_padding);
    add("end_padding", p.end_padding);
    add("dilations", p.dilations);
  }
  if (tools::is_slice(p.kind)) {
    add("offsets", p.offsets);
    add("sizes", p.sizes);
  }
  if (tools::is_pooling(p.kind) || tools::is_slice(p.kind)) add("strides", p.strides);
  if (tools::is_resample(p.kind)) {
    line += fmt::format(" mode={} convention={} rounding={}", p.mode == BP_LINEAR ? "linear" : "nearest",
                        convention_name(p), rounding_name(p));
  }
  return line;
}

std::string files(const PeerTask& task) {
  std::string line;
  const auto add = [&](const std::vector<tools::TensorSpec>& specs, std::vector<Memory> BufferSet::*member) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].absent || specs[i].name == "winners") continue;
      std::vector<std::string> paths;
      for (const BufferSet& set : task.sets) paths.push_back((set.*member)[i].path());
      line += fmt::format(" {}={}", specs[i].name, fmt::join(paths, ","));
    }
  };
  add(task.specs.inputs, &BufferSet::inputs);
  add(task.specs.outputs, &BufferSet::outputs);
  if (task.x != nullptr) line += fmt::format(" x={}", task.x->path());
  return line;
}

std::int32_t value_dtype(const tools::Tensors& specs) { return specs.outputs.front().dtype; }

// ---- Where the peers are ---------------------------------------------------------------------------------

std::filesystem::path folder() { return std::filesystem::canonical("/proc/self/exe").parent_path() / "peers"; }

std::string python() {
  const char* given = std::getenv("BACKPASS_PEERS_PYTHON");
  return given != nullptr ? given : "build/peers/bin/python";  // where make peers puts it
}

}  // namespace

// ---- One process -----------------------------------------------------------------------------------------

std::unique_ptr<PeerProcess> PeerProcess::start(const std::vector<std::string>& command) {
  if (::access(command.front().c_str(), X_OK) != 0) return nullptr;
  std::array<int, 2> questions{}, answers{};
  // No other child may hold an end of these open, or this one would not notice that the bench has gone.
  if (::pipe2(questions.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0) return nullptr;
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::unique_ptr<PeerProcess> peer(new PeerProcess);
  peer->process_ = ::fork();
  if (peer->process_ == 0) {
    ::dup2(questions[0], STDIN_FILENO);
    ::dup2(answers[1], STDOUT_FILENO);
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  ::close(questions[0]);
  ::close(answers[1]);
  peer->to_ = ::fdopen(questions[1], "w");
  peer->from_ = ::fdopen(answers[0], "r");
  peer->name_ = peer->read_line();
  return peer->name_.empty() ? nullptr : std::move(peer);
}

PeerProcess::~PeerProcess() {
  std::fclose(to_);  // which ends it
  std::fclose(from_);
  ::waitpid(process_, nullptr, 0);
}

std::string PeerProcess::read_line() {
  std::string line;
  for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) line += static_cast<char>(c);
  return line;
}

std::string PeerProcess::ask(const std::string& line) {
  std::fputs((line + '\n').c_str(), to_);
  std::fflush(to_);
  std::string answer = read_line();
  if (answer.empty()) throw tools::UsageError(fmt::format("{} ended in the middle of '{}'", name_, line));
  return answer;
}

bool PeerProcess::prepare(const PeerTask& task) {
  if (!is_ordinary(task.problem)) return false;
  std::string op(tools::operator_name(task.problem.kind));
  const std::string answer = ask(fmt::format(
      "prepare op={} dtype={} layout={} device={} sets={}{}{}", op, tools::dtype_name(value_dtype(task.specs)),
      task.problem.nhwc ? "nhwc" : "nchw", task.device_sets == 0 ? "cpu" : "cuda",
      task.device_sets == 0 ? task.sets.size() : task.device_sets, parameters(task.problem), files(task)));
  if (answer != "ready" && std::getenv("BACKPASS_PEERS_VERBOSE") != nullptr) {
    fmt::print(stderr, "{}: {} {}: {}\n", name_, op, task.problem.name, answer);
  }
  return answer == "ready";
}

double PeerProcess::run(const Turn& turn) {
  return std::stod(ask(fmt::format("run {} {} {}", turn.first_set, turn.untimed, turn.timed)));
}

void PeerProcess::show() { ask("show"); }
void PeerProcess::release() { ask("release"); }

// ---- All of them -----------------------------------------------------------------------------------------

void Peers::start(const std::vector<std::string>& command, std::string_view name, std::string_view hint) {
  std::unique_ptr<PeerProcess> peer = PeerProcess::start(command);
  summary_ += running_.empty() && summary_.empty() ? "peers: " : ", ";
  summary_ += peer ? peer->name() : fmt::format("{} not found ({})", name, hint);
  if (peer) running_.push_back(std::move(peer));
}

Peers Peers::on_cpu(int threads) {
  // GNU's OpenMP threads spin for milliseconds after each loop, at the cost of whoever comes next. This many rounds are
  // less than a tenth of one, and over when the next turn begins.
  ::setenv("GOMP_SPINCOUNT", "1000", 0);
  ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  Peers peers;
  peers.summary_.clear();
  peers.start({(folder() / "onednn_peer").string()}, "oneDNN", "make peers");
  peers.start({python(), "-W", "ignore", (folder() / "torch_peer.py").string()}, "PyTorch", "make peers");
  return peers;
}

constexpr std::string_view kCudaHint = "BACKPASS_PEERS_PYTHON names a Python that has PyTorch with CUDA";

Peers Peers::on_cuda() {
  Peers peers;
  peers.summary_.clear();
  peers.start({python(), "-W", "ignore", (folder() / "torch_peer.py").string()}, "PyTorch", kCudaHint);
  peers.start({python(), "-W", "ignore", (folder() / "torch_peer.py").string(), "compile"}, "torch.compile", kCudaHint);
  peers.start({python(), "-W", "ignore", (folder() / "cudnn_peer.py").string()}, "cuDNN", kCudaHint);
  return peers;
}

Peers Peers::in_graphs() {
  Peers peers;
  peers.summary_.clear();
  peers.start({python(), "-W", "ignore", (folder() / "torch_peer.py").string()}, "PyTorch", kCudaHint);
  peers.start({python(), "-W", "ignore", (folder() / "torch_peer.py").string(), "graph"}, "graphs of PyTorch",
              kCudaHint);
  return peers;
}

// ---- Their answers ---------------------------------------------------------------------------------------

namespace {

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

}  // namespace

std::vector<PeerProcess*> prepared(const Peers& peers, const PeerTask& task, std::vector<PeerResult>& results) {
  std::vector<PeerProcess*> ready;
  const Memory& output = task.sets.front().outputs.front();
  const std::vector<std::byte> expected(output.bytes().begin(), output.bytes().end());
  for (const auto& peer : peers.running()) {
    if (!peer->prepare(task)) continue;
    std::memset(output.data(), 0xa5, expected.size());  // what it does not write is not taken for its result
    peer->run({.first_set = 0, .untimed = 0, .timed = 1});
    if (task.device_sets > 0) peer->show();
    const bool agrees = agree(output.bytes(), expected, task.specs.outputs.front().dtype);
    results.push_back({.name = peer->name(), .agrees = agrees});
    ready.push_back(peer.get());
  }
  return ready;
}

}  // namespace bench
