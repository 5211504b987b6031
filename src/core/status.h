// SPDX-License-Identifier: Apache-2.0
// Failure, inside the library: one exception type that carries the code and the sentence. It is caught at the C ABI and
// nowhere else.
#pragma once

#include <backpass/backpass.h>
#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace bp {

class Failure : public std::exception {
 public:
  Failure(bp_status code, std::string text) : code_(code), text_(std::move(text)) {}
  [[nodiscard]] bp_status code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  bp_status code_;
  std::string text_;
};

// The sentence is "operator: tensor or parameter: axis: found, expected".
template <class... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(BP_INVALID_ARGUMENT, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(BP_UNSUPPORTED, fmt::format(format, std::forward<Args>(args)...));
}

// "1 entry", "2 entries".
template <class Count>
std::string counted(Count count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace bp
