// SPDX-License-Identifier: Apache-2.0
// oneDNN in the race: peers.h has the protocol. It works on the plain layouts, as a caller would who does not keep
// tensors in oneDNN's blocked ones.
#include <oneapi/dnnl/dnnl.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Dims = dnnl::memory::dims;
using Arguments = std::unordered_map<int, dnnl::memory>;

// What it does not have.
struct Absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// The words "key=value" of a request.
class Request {
 public:
  explicit Request(std::istringstream& words) {
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  [[nodiscard]] const std::string& text(const std::string& key) const { return values_.at(key); }
  [[nodiscard]] Dims numbers(const std::string& key) const {
    Dims numbers;
    for (const std::string& part : split(text(key))) numbers.push_back(std::stoll(part));
    return numbers;
  }

 private:
  std::map<std::string, std::string> values_;
};

// A file of the bench's, mapped.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || ::fstat(file, &status) != 0) throw std::runtime_error(path + " cannot be opened");
    size_ = static_cast<std::size_t>(status.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (data_ == MAP_FAILED) throw std::runtime_error(path + " cannot be mapped");
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// One problem, ready to run on each of its sets of buffers.
class Task {
 public:
  explicit Task(const Request& request);

  void run(std::size_t set) {
    primitive_.execute(stream_, arguments_[set % arguments_.size()]);
    stream_.wait();
  }

 private:
  [[nodiscard]] dnnl::memory::desc tensor(const std::string& shape) const;
  void bind(int argument, const std::string& name, const dnnl::memory::desc& desc);
  void bind_own(int argument, const dnnl::memory::desc& desc);

  void make_relu();
  void make_relu_grad();
  void make_max_pool(bool gradient);
  void make_resample(bool gradient);

  const Request& request_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Mapping> mappings_;
  dnnl::primitive primitive_;
  std::vector<Arguments> arguments_;
};

Task::Task(const Request& request) : request_(request), arguments_(std::stoul(request.text("sets"))) {
  const std::string& op = request.text("op");
  if (op == "relu") {
    make_relu();
  } else if (op == "relu-grad") {
    make_relu_grad();
  } else if (op == "max-pool" || op == "max-pool-grad") {
    make_max_pool(op == "max-pool-grad");
  } else if (op == "resample" || op == "resample-grad") {
    make_resample(op == "resample-grad");
  } else {
    throw Absent("no such operator");
  }
}

// The plain layout of a rank is named by letters: the channels are second, or last.
dnnl::memory::desc Task::tensor(const std::string& shape) const {
  using Tag = dnnl::memory::format_tag;
  static const std::vector<Tag> first{Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  static const std::vector<Tag> last{Tag::undef, Tag::a, Tag::ab, Tag::acb, Tag::acdb, Tag::acdeb};
  static const std::map<std::string, dnnl::memory::data_type> types{{"f32", dnnl::memory::data_type::f32},
                                                                    {"f16", dnnl::memory::data_type::f16},
                                                                    {"bf16", dnnl::memory::data_type::bf16},
                                                                    {"i8", dnnl::memory::data_type::s8}};
  const Dims dims = request_.numbers(shape);
  const auto type = types.find(request_.text("dtype"));
  if (type == types.end() || dims.size() >= first.size()) throw Absent("no such type or rank");
  return {dims, type->second, (request_.text("layout") == "nhwc" ? last : first)[dims.size()]};
}

void Task::bind(int argument, const std::string& name, const dnnl::memory::desc& desc) {
  std::vector<void*> buffers;
  for (const std::string& path : split(request_.text(name))) {
    mappings_.emplace_back(path);
    buffers.push_back(mappings_.back().data());
  }
  for (std::size_t set = 0; set < arguments_.size(); ++set) {
    arguments_[set].emplace(argument, dnnl::memory(desc, engine_, buffers[set % buffers.size()]));
  }
}

void Task::bind_own(int argument, const dnnl::memory::desc& desc) {
  for (Arguments& set : arguments_) set.emplace(argument, dnnl::memory(desc, engine_));
}

void Task::make_relu() {
  const dnnl::memory::desc x = tensor("x_shape");
  const dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::eltwise_relu, x, 0);
  primitive_ = dnnl::eltwise_forward({desc, engine_});
  bind(DNNL_ARG_SRC, "x", x);
  bind(DNNL_ARG_DST, "y", x);
}

void Task::make_relu_grad() {
  const dnnl::memory::desc x = tensor("x_shape");
  const dnnl::eltwise_forward::desc forward(dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu, x, 0);
  const dnnl::eltwise_backward::desc desc(dnnl::algorithm::eltwise_relu, x, x, 0);
  primitive_ = dnnl::eltwise_backward({desc, engine_, {forward, engine_}});
  bind(DNNL_ARG_SRC, "x", x);
  bind(DNNL_ARG_DIFF_DST, "dy", x);
  bind(DNNL_ARG_DIFF_SRC, "dx", x);
}

void Task::make_max_pool(bool gradient) {
  const dnnl::memory::desc x = tensor("x_shape"), y = tensor("y_shape");
  const Dims window = request_.numbers("window"), strides = request_.numbers("strides");
  const Dims start = request_.numbers("start_padding");
  Dims dilations = request_.numbers("dilations"), end = request_.numbers("end_padding");
  const Dims x_shape = request_.numbers("x_shape"), y_shape = request_.numbers("y_shape");
  for (std::size_t i = 0; i < window.size(); ++i) {
    // A last window of ceil mode needs as much padding as it reaches beyond.
    const auto reach = (y_shape[i + 2] - 1) * strides[i] + (window[i] - 1) * dilations[i] + 1;
    end[i] = std::max(end[i], reach - x_shape[i + 2] - start[i]);
    dilations[i] -= 1;  // oneDNN counts the gaps
  }
  const dnnl::pooling_v2_forward::desc forward_desc(dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_max, x,
                                                    y, strides, window, dilations, start, end);
  const dnnl::pooling_v2_forward::primitive_desc forward(forward_desc, engine_);
  primitive_ = dnnl::pooling_v2_forward(forward);
  bind(DNNL_ARG_SRC, "x", x);
  if (gradient) {
    bind_own(DNNL_ARG_DST, y);
  } else {
    bind(DNNL_ARG_DST, "y", y);
  }
  bind_own(DNNL_ARG_WORKSPACE, forward.workspace_desc());
  if (!gradient) return;

  for (std::size_t set = 0; set < arguments_.size(); ++set) run(set);  // the winners
  for (Arguments& set : arguments_) {
    set.erase(DNNL_ARG_SRC);
    set.erase(DNNL_ARG_DST);
  }
  const dnnl::pooling_v2_backward::desc desc(dnnl::algorithm::pooling_max, x, y, strides, window, dilations, start,
                                             end);
  primitive_ = dnnl::pooling_v2_backward({desc, engine_, forward});
  bind(DNNL_ARG_DIFF_DST, "dy", y);
  bind(DNNL_ARG_DIFF_SRC, "dx", x);
}

// oneDNN's coordinates are half-pixel's, and its nearest rounds halves up.
void Task::make_resample(bool gradient) {
  const bool linear = request_.text("mode") == "linear";
  if (request_.text("convention") != "half-pixel" || (!linear && request_.text("rounding") != "half-up")) {
    throw Absent("no such convention");
  }
  const dnnl::memory::desc x = tensor("x_shape"), y = tensor("y_shape");
  const auto algorithm = linear ? dnnl::algorithm::resampling_linear : dnnl::algorithm::resampling_nearest;
  const dnnl::resampling_forward::desc forward_desc(dnnl::prop_kind::forward_training, algorithm, x, y);
  const dnnl::resampling_forward::primitive_desc forward(forward_desc, engine_);
  if (!gradient) {
    primitive_ = dnnl::resampling_forward(forward);
    bind(DNNL_ARG_SRC, "x", x);
    bind(DNNL_ARG_DST, "y", y);
    return;
  }
  primitive_ = dnnl::resampling_backward({{algorithm, x, y}, engine_, forward});
  bind(DNNL_ARG_DIFF_DST, "dy", y);
  bind(DNNL_ARG_DIFF_SRC, "dx", x);
}

// ---- Answers ---------------------------------------------------------------------------------------------

// The task refers to the request.
struct Prepared {
  explicit Prepared(std::istringstream& words) : request(words), task(request) {}
  Request request;
  Task task;
};

std::string prepare(std::istringstream& words, std::unique_ptr<Prepared>& prepared) {
  try {
    prepared = std::make_unique<Prepared>(words);
    return "ready";
  } catch (const Absent& absent) {
    return std::string("absent ") + absent.what();
  } catch (const dnnl::error& error) {
    return std::string("absent ") + error.what();
  }
}

std::string run(std::istringstream& words, Task& task) {
  std::size_t set = 0;
  int untimed = 0, timed = 0;
  words >> set >> untimed >> timed;
  const auto calls = [&](int count) {
    for (int i = 0; i < count; ++i) task.run(set++);
  };
  calls(untimed);
  const auto start = std::chrono::steady_clock::now();
  calls(timed);
  const auto time = std::chrono::steady_clock::now() - start;
  return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace

int main() {
  const dnnl_version_t& version = *dnnl_version();
  std::cout << "oneDNN " << version.major << '.' << version.minor << '.' << version.patch << std::endl;
  std::unique_ptr<Prepared> prepared;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "prepare") {
      std::cout << prepare(words, prepared) << std::endl;
    } else if (verb == "run") {
      std::cout << run(words, prepared->task) << std::endl;
    } else {
      prepared.reset();
      std::cout << "released" << std::endl;
    }
  }
}
