// SPDX-License-Identifier: Apache-2.0
#include "npy_header.h"

#include "printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace tools {
namespace {

[[noreturn]] void fail(const std::string& what) { throw UsageError(what); }

// A parser of the one Python dictionary that a header is.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      parse_item();
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (at_ < text_.size()) fail_expecting("its end");
    require_all_keys();
    return std::move(header_);
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys{"descr", "fortran_order", "shape"};

  void parse_item() {
    const std::string_view key = parse_string();
    const auto found = std::ranges::find(kKeys, key);
    if (found == kKeys.end()) fail(fmt::format("its header has an unknown key '{}'", shortened(key)));
    bool& seen = seen_[static_cast<std::size_t>(found - kKeys.begin())];
    if (seen) fail(fmt::format("its header has the key '{}' twice", key));
    seen = true;
    expect(':');
    if (key == "descr") parse_descr();
    if (key == "fortran_order") parse_fortran_order();
    if (key == "shape") parse_shape();
  }

  void require_all_keys() const {
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      if (!seen_[i]) fail(fmt::format("its header has no key '{}'", kKeys[i]));
    }
  }

  void parse_descr() {
    header_.descr_is_string = peek() == '\'' || peek() == '"';
    if (header_.descr_is_string) {
      header_.descr = parse_string();
      return;
    }
    const std::size_t start = at_;
    skip_literal(0);
    header_.descr = text_.substr(start, at_ - start);
  }

  void parse_fortran_order() {
    const std::string_view word = parse_word();
    if (word != "True" && word != "False") {
      at_ -= word.size();
      fail_expecting("True or False");
    }
    header_.fortran_order = word == "True";
  }

  void parse_shape() {
    expect('(');
    while (!accept(')')) {
      header_.shape.push_back(parse_size());
      if (accept(',')) continue;
      if (header_.shape.size() == 1) fail_expecting("','");  // (3) is a number, not a tuple
      expect(')');
      break;
    }
  }

  std::int64_t parse_size() {
    const std::string_view number = parse_integer();
    if (number.starts_with('-')) fail(fmt::format("its shape has the negative size {}", shortened(number)));
    std::int64_t value = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
    if (result.ec != std::errc()) fail(fmt::format("its shape has the size {}, too large", shortened(number)));
    return value;
  }

  // Digits, perhaps after a minus. A closing L (Python 2's long) is passed over.
  std::string_view parse_integer() {
    skip_space();
    const std::size_t start = at_;
    if (text_.substr(at_).starts_with('-')) ++at_;
    const std::size_t digits = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == digits) fail_expecting("an integer");
    const std::string_view number = text_.substr(start, at_ - start);
    if (text_.substr(at_).starts_with('L')) ++at_;
    return number;
  }

  // The characters between the quotes. Escapes stay as they are: no key and no supported type has any.
  std::string_view parse_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_expecting("a string");
    const std::size_t start = ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size() || text_[at_] != quote) fail("its header has a string without an end");
    return text_.substr(start, at_++ - start);
  }

  std::string_view parse_word() {
    skip_space();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  // Passes over what describes a structured type: lists and tuples of strings, integers and words.
  void skip_literal(int depth) {
    constexpr int deepest = 32;  // so that no header can exhaust the stack
    if (depth > deepest) fail("its header is nested too deeply");
    const char first = peek();
    if (first == '[' || first == '(') {
      skip_sequence(first == '[' ? ']' : ')', depth);
    } else if (first == '\'' || first == '"') {
      parse_string();
    } else if (is_digit(first) || first == '-') {
      parse_integer();
    } else if (parse_word().empty()) {
      fail_expecting("a value");
    }
  }

  void skip_sequence(char close, int depth) {
    ++at_;
    while (!accept(close)) {
      skip_literal(depth + 1);
      if (accept(',')) continue;
      expect(close);
      break;
    }
  }

  void skip_space() {
    constexpr std::string_view space = " \t\r\n\f";
    at_ = std::min(text_.find_first_not_of(space, at_), text_.size());
  }

  // The next character that is no space; 0 at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char wanted) {
    skip_space();
    if (!text_.substr(at_).starts_with(wanted)) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail_expecting(fmt::format("'{}'", wanted));
  }

  [[noreturn]] void fail_expecting(std::string_view wanted) const {
    const std::string found = at_ < text_.size() ? fmt::format("'{}'", printable(text_.substr(at_, 1))) : "its end";
    fail(fmt::format("its header is not what NumPy writes: expected {} at byte {}, found {}", wanted, at_, found));
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) { return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }

  std::string_view text_;
  std::size_t at_ = 0;
  std::array<bool, kKeys.size()> seen_{};
  NpyHeader header_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) { return HeaderParser(text).parse(); }

}  // namespace tools
