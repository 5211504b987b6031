// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "problem.h"

namespace tools {

namespace {

[[noreturn]] void refuse() { throw UsageError("device: this build of backpass has no CUDA backend"); }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t) { refuse(); }
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept = default;
void DeviceMemory::write(std::span<const std::byte>) const { refuse(); }
void DeviceMemory::read(std::span<std::byte>) const { refuse(); }
void DeviceMemory::copy(const DeviceMemory&) const { refuse(); }

DeviceStream::DeviceStream() { refuse(); }
DeviceStream::~DeviceStream() = default;
void DeviceStream::wait() const { refuse(); }
double DeviceStream::time(const std::function<void()>&) const { refuse(); }
void DeviceStream::copy(const DeviceMemory&, const DeviceMemory&) const { refuse(); }

DeviceGraph::DeviceGraph(const DeviceStream&, const std::function<void()>&) { refuse(); }
DeviceGraph::~DeviceGraph() = default;
void DeviceGraph::launch(const DeviceStream&) const { refuse(); }

DeviceFacts device_facts() { refuse(); }

}  // namespace tools
