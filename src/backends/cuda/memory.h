// SPDX-License-Identifier: Apache-2.0
// Tables that kernels read: gathered on the host, copied to the device in one piece at create.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace bp::cuda {

class Tables {
 public:
  Tables() = default;
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // The place of a table within the piece; at() makes a pointer of it once all are uploaded.
  template <class T>
  std::size_t add(std::span<const T> values) {
    const std::size_t place = (host_.size() + kAlignment - 1) / kAlignment * kAlignment;
    host_.resize(place + values.size_bytes());
    if (!values.empty()) std::memcpy(host_.data() + place, values.data(), values.size_bytes());
    return place;
  }
  void upload(std::string_view op);
  template <class T>
  [[nodiscard]] const T* at(std::size_t place) const {
    return reinterpret_cast<const T*>(device_ + place);
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  std::vector<std::byte> host_;
  std::byte* device_ = nullptr;
};

}  // namespace bp::cuda
