// SPDX-License-Identifier: Apache-2.0
// Words for the tests of .npy files: a file around any header, a folder of its own for every test, and what is thrown.
#pragma once

#include "../tools/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tools {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

inline Bytes counting_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

inline std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A whole file around the text of a header.
inline std::string npy(const std::string& header, const std::string& data = "", int major = 1, int minor = 0) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += static_cast<char>(minor);
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

inline std::string header(const std::string& descr, const std::string& shape,
                          const std::string& fortran_order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }\n";
}

inline std::string usage_error(const std::function<void()>& function) {
  try {
    function();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string_view(error.what()).find_first_of("\n\r\x1b"), std::string_view::npos);
    return error.what();
  }
  ADD_FAILURE() << "no UsageError";
  return "";
}

class NpyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "npy_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = fs::canonical(pattern);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string put(const std::string& content, const std::string& name = "in.npy") const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] NpyArray read(const std::string& file, bool as_bf16 = false) const {
    return read_npy(put(file), as_bf16);
  }

  // The message of reading such a file, without the path that it must begin with.
  [[nodiscard]] std::string error_of(const std::string& file, bool as_bf16 = false) const {
    const std::string name = put(file);
    const std::string message = usage_error([&] { (void)read_npy(name, as_bf16); });
    EXPECT_TRUE(message.starts_with(name + ": ")) << message;
    return message.substr(std::min(message.size(), name.size() + 2));
  }

  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) result.insert(entry.path().filename().string());
    return result;
  }

  // Something to write.
  void write(const std::string& name, char value = 'a') const {
    const Bytes data(3, static_cast<std::byte>(value));
    write_npy(name, BP_U8, {3}, data, false);
  }
  static void add(NpyWriter& writer, const std::string& name, char value = 'a') {
    const Bytes data(3, static_cast<std::byte>(value));
    writer.add(name, BP_U8, {3}, data, false);
  }
  [[nodiscard]] std::string data_of(const std::string& name) const { return text_of(read_npy(path(name), false).data); }

  fs::path folder_;
};

using Names = std::set<std::string>;

struct Spelling {
  std::int32_t dtype;
  std::string descr;
};
inline const std::vector<Spelling> spellings{{BP_F64, "<f8"}, {BP_F32, "<f4"}, {BP_F16, "<f2"}, {BP_I64, "<i8"},
                                             {BP_I32, "<i4"}, {BP_I16, "<i2"}, {BP_I8, "|i1"},  {BP_U64, "<u8"},
                                             {BP_U32, "<u4"}, {BP_U16, "<u2"}, {BP_U8, "|u1"}};

}  // namespace tools
