// SPDX-License-Identifier: Apache-2.0
// The CUDA device as the command line needs it: memory, a stream, its clock. Without CUDA in this build each of these
// throws UsageError, and none is reached: no operator can be created for the device.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace tools {

// Memory of the device.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t size);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }  // null where the size is 0
  [[nodiscard]] std::size_t size() const { return size_; }

  // From and to the host, after all that was launched before.
  void write(std::span<const std::byte> bytes) const;
  void read(std::span<std::byte> bytes) const;
  // From the device's own memory.
  void copy(const DeviceMemory& from) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A stream that waits for no other.
class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  [[nodiscard]] void* handle() const { return handle_; }  // a cudaStream_t
  void wait() const;
  // The nanoseconds by the device's clock of what `launches` puts on this stream.
  double time(const std::function<void()>& launches) const;
  // Puts a copy within the device's memory on this stream.
  void copy(const DeviceMemory& to, const DeviceMemory& from) const;

 private:
  void* handle_ = nullptr;
};

// What a stream was given, to be launched again as one.
class DeviceGraph {
 public:
  // Of what `launches` puts on the stream, which does not run now.
  DeviceGraph(const DeviceStream& stream, const std::function<void()>& launches);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  void launch(const DeviceStream& stream) const;

 private:
  void* handle_ = nullptr;
};

struct DeviceFacts {
  std::string name, driver;
  std::size_t memory = 0, cache = 0;  // bytes; the cache is the last one
};
DeviceFacts device_facts();

}  // namespace tools
