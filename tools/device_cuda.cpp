// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "problem.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace tools {

namespace {

void require(const char* what, cudaError_t status) {
  if (status != cudaSuccess) throw UsageError(fmt::format("CUDA: {}: {}", what, cudaGetErrorString(status)));
}

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }

class Event {
 public:
  Event() { require("event", cudaEventCreate(&event_)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

// ---- Memory --------------------------------------------------------------------------------------------

DeviceMemory::DeviceMemory(std::size_t size) : size_(size) {
  if (size == 0) return;
  void* memory = nullptr;
  require("memory", cudaMalloc(&memory, size));
  data_ = static_cast<std::byte*>(memory);
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) (void)cudaFree(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

void DeviceMemory::write(std::span<const std::byte> bytes) const {
  require("run", cudaDeviceSynchronize());
  require("copy", cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
}

void DeviceMemory::read(std::span<std::byte> bytes) const {
  require("run", cudaDeviceSynchronize());
  require("copy", cudaMemcpy(bytes.data(), data_, bytes.size(), cudaMemcpyDeviceToHost));
}

void DeviceMemory::copy(const DeviceMemory& from) const {
  require("copy", cudaMemcpy(data_, from.data_, size_, cudaMemcpyDeviceToDevice));
  require("copy", cudaDeviceSynchronize());
}

// ---- Streams -------------------------------------------------------------------------------------------

DeviceStream::DeviceStream() {
  cudaStream_t stream = nullptr;
  require("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  handle_ = stream;
}

DeviceStream::~DeviceStream() { (void)cudaStreamDestroy(stream_of(handle_)); }

void DeviceStream::wait() const { require("run", cudaStreamSynchronize(stream_of(handle_))); }

double DeviceStream::time(const std::function<void()>& launches) const {
  const Event start, stop;
  require("event", cudaEventRecord(start.get(), stream_of(handle_)));
  launches();
  require("event", cudaEventRecord(stop.get(), stream_of(handle_)));
  require("run", cudaEventSynchronize(stop.get()));
  float milliseconds = 0;
  require("event", cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
  return 1e6 * static_cast<double>(milliseconds);
}

void DeviceStream::copy(const DeviceMemory& to, const DeviceMemory& from) const {
  require("copy", cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice, stream_of(handle_)));
}

// ---- Graphs --------------------------------------------------------------------------------------------

DeviceGraph::DeviceGraph(const DeviceStream& stream, const std::function<void()>& launches) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require("capture", cudaStreamBeginCapture(stream_of(stream.handle()), cudaStreamCaptureModeThreadLocal));
  launches();
  require("capture", cudaStreamEndCapture(stream_of(stream.handle()), &graph));
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  require("graph", status);
  handle_ = executable;
}

DeviceGraph::~DeviceGraph() { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_)); }

void DeviceGraph::launch(const DeviceStream& stream) const {
  require("graph", cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), stream_of(stream.handle())));
}

// ---- Facts ---------------------------------------------------------------------------------------------

namespace {

// What the driver calls itself, where it says so: "580.159.04".
std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos) return word;
  }
  return {};
}

}  // namespace

DeviceFacts device_facts() {
  cudaDeviceProp properties{};
  int driver = 0;
  require("device", cudaGetDeviceProperties(&properties, 0));
  require("device", cudaDriverGetVersion(&driver));
  const std::string release = driver_release();
  return {
      .name = properties.name,
      .driver = fmt::format("CUDA {}.{}{}{}", driver / 1000, driver % 1000 / 10, release.empty() ? "" : ", ", release),
      .memory = properties.totalGlobalMem,
      .cache = static_cast<std::size_t>(properties.l2CacheSize)};
}

}  // namespace tools
