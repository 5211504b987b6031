// SPDX-License-Identifier: Apache-2.0
// Reading and writing .npy files: what is accepted, the sentence for what is not, and that a failure leaves nothing.
#include "../tools/npy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace tools {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::string_view supported =
    "is not supported; the supported types are f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1, and V2 with --dtype bf16";

Bytes counting_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A whole file around the text of a header.
std::string npy(const std::string& header, const std::string& data = "", int major = 1, int minor = 0) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += static_cast<char>(minor);
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& fortran_order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }\n";
}

std::string usage_error(const std::function<void()>& function) {
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

// ---- Round trips ----------------------------------------------------------------------------------------------------

struct Spelling {
  std::int32_t dtype;
  std::string descr;
};
const std::vector<Spelling> spellings{{BP_F64, "<f8"}, {BP_F32, "<f4"}, {BP_F16, "<f2"}, {BP_I64, "<i8"},
                                      {BP_I32, "<i4"}, {BP_I16, "<i2"}, {BP_I8, "|i1"},  {BP_U64, "<u8"},
                                      {BP_U32, "<u4"}, {BP_U16, "<u2"}, {BP_U8, "|u1"}};

TEST_F(NpyTest, EveryTypeSurvivesARoundTrip) {
  for (const auto& [dtype, descr] : spellings) {
    SCOPED_TRACE(descr);
    const Bytes data = counting_bytes(2 * 3 * 5 * dtype_size(dtype));
    write_npy(path("a.npy"), dtype, {2, 3, 5}, data, false);
    const NpyArray array = read_npy(path("a.npy"), false);
    EXPECT_EQ(array.dtype, dtype);
    EXPECT_EQ(array.sizes, (Ints{2, 3, 5}));
    EXPECT_EQ(array.strides, (Ints{15, 5, 1}));
    EXPECT_EQ(array.data, data);
    EXPECT_FALSE(array.void_type);
    EXPECT_NE(content("a.npy").find("'descr': '" + descr + "'"), std::string::npos);
  }
}

TEST_F(NpyTest, Bf16SurvivesAsVoidAndAsU2) {
  const Bytes data = counting_bytes(8);
  for (const bool as_void : {false, true}) {
    write_npy(path("a.npy"), BP_BF16, {4}, data, as_void);
    const NpyArray array = read_npy(path("a.npy"), true);
    EXPECT_EQ(array.dtype, BP_BF16);
    EXPECT_EQ(array.void_type, as_void);
    EXPECT_EQ(array.data, data);
    EXPECT_NE(content("a.npy").find(as_void ? "'<V2'" : "'<u2'"), std::string::npos);
  }
  EXPECT_EQ(read(npy(header("'|V2'", "(1,)"), "ab"), true).dtype, BP_BF16);
  EXPECT_EQ(read(npy(header("'<u2'", "(1,)"), "ab"), false).dtype, BP_U16);
  EXPECT_EQ(read(npy(header("'<f4'", "(1,)"), "abcd"), true).dtype, BP_F32);
}

TEST_F(NpyTest, WritesVersionOneWithAlignedData) {
  for (std::size_t rank = 1; rank <= BP_MAX_RANK; ++rank) {
    const Ints sizes(rank, 1);
    write_npy(path("a.npy"), BP_F64, sizes, counting_bytes(8), false);
    const std::string file = content("a.npy");
    ASSERT_GT(file.size(), 8U);
    EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\1\0", 8));
    EXPECT_EQ((file.size() - 8) % 64, 0U);
    EXPECT_EQ(file[file.size() - 9], '\n');
    EXPECT_EQ(read_npy(path("a.npy"), false).sizes, sizes);
  }
  write_npy(path("a.npy"), BP_U8, {3}, counting_bytes(3), false);
  EXPECT_NE(content("a.npy").find("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"), std::string::npos);
}

TEST_F(NpyTest, EmptyArraysKeepTheirShape) {
  for (const Ints& sizes : {Ints{0}, Ints{2, 0, 3}, Ints{0, 0}}) {
    write_npy(path("a.npy"), BP_F32, sizes, {}, false);
    const NpyArray array = read_npy(path("a.npy"), false);
    EXPECT_EQ(array.sizes, sizes);
    EXPECT_EQ(array.strides.size(), sizes.size());
    EXPECT_TRUE(array.data.empty());
  }
}

TEST_F(NpyTest, WrongArgumentsAreTheCallersDefect) {
  EXPECT_THROW(write_npy(path("a.npy"), BP_F32, {3}, counting_bytes(11), false), std::logic_error);
  EXPECT_THROW(write_npy(path("a.npy"), BP_U8, {-1}, {}, false), std::logic_error);
  EXPECT_THROW(write_npy(path("a.npy"), BP_U8, {}, counting_bytes(1), false), std::logic_error);
  EXPECT_THROW(write_npy(path("a.npy"), BP_U8, Ints(9, 1), counting_bytes(1), false), std::logic_error);
  EXPECT_THROW(write_npy(path("a.npy"), 99, {1}, counting_bytes(1), false), std::logic_error);
  EXPECT_EQ(names(), Names{});
}

// ---- What NumPy and others write ------------------------------------------------------------------------------------

TEST_F(NpyTest, ByteOrders) {
  const std::string ascending = "\1\2\3\4\5\6\7\10";
  const auto first_value = [&](const std::string& descr) {
    const NpyArray array = read(npy(header(descr, "(2,)"), ascending));
    std::uint32_t value = 0;
    std::memcpy(&value, array.data.data(), sizeof value);
    return value;
  };
  constexpr bool little = std::endian::native == std::endian::little;
  const std::uint32_t native = little ? 0x04030201U : 0x01020304U;
  EXPECT_EQ(first_value("'<u4'"), 0x04030201U);
  EXPECT_EQ(first_value("'>u4'"), 0x01020304U);
  EXPECT_EQ(first_value("'=u4'"), native);
  EXPECT_EQ(first_value("'|u4'"), native);
  EXPECT_EQ(first_value("'u4'"), native);
}

TEST_F(NpyTest, BigEndianOfEveryType) {
  for (const auto& [dtype, descr] : spellings) {
    SCOPED_TRACE(descr);
    const std::size_t size = dtype_size(dtype);
    const Bytes data = counting_bytes(3 * size);
    Bytes reversed = data;
    for (auto at = reversed.begin(); at != reversed.end(); at += static_cast<std::ptrdiff_t>(size)) {
      std::reverse(at, at + static_cast<std::ptrdiff_t>(size));
    }
    const std::string foreign = (std::endian::native == std::endian::little ? "'>" : "'<") + descr.substr(1) + "'";
    EXPECT_EQ(read(npy(header(foreign, "(3,)"), text_of(reversed))).data, data);
  }
}

TEST_F(NpyTest, FortranOrderIsAMatterOfStrides) {
  const NpyArray array = read(npy(header("'|u1'", "(2, 3, 2)", "True"), "abcdefghijkl"));
  EXPECT_EQ(array.sizes, (Ints{2, 3, 2}));
  EXPECT_EQ(array.strides, (Ints{1, 2, 6}));
  EXPECT_EQ(text_of(array.data), "abcdefghijkl");
}

TEST_F(NpyTest, Versions) {
  const std::string text = header("'|u1'", "(3,)");
  for (const int major : {1, 2, 3}) EXPECT_EQ(text_of(read(npy(text, "abc", major)).data), "abc");
  for (const auto& [major, minor] : {std::pair{0, 0}, {1, 1}, {4, 0}, {255, 255}}) {
    EXPECT_EQ(error_of(npy(text, "abc", major, minor)), "is a .npy file of version " + std::to_string(major) + "." +
                                                            std::to_string(minor) +
                                                            "; the supported versions are 1.0, 2.0 and 3.0");
  }
}

TEST_F(NpyTest, SpellingsOfTheHeader) {
  const std::vector<std::string> headers{
      R"({"descr": "|u1", "fortran_order": False, "shape": (3, 2)})",
      R"({'shape': (3, 2), "fortran_order": False, 'descr': "|u1"})",
      R"({'fortran_order':False,'shape':(3,2,),'descr':'u1',})",
      "  {\n'descr'\t:  '|u1' ,\r\n 'fortran_order' : False , 'shape' : (  3\n, 2\t) , \f} \n\n  ",
      R"({'descr': '|u1', 'fortran_order': False, 'shape': (3L, 2L), })",
      R"({'descr': '<u1', 'fortran_order': False, 'shape': (003, 2), })",
  };
  for (const std::string& text : headers) {
    SCOPED_TRACE(text);
    const NpyArray array = read(npy(text, "abcdef"));
    EXPECT_EQ(array.dtype, BP_U8);
    EXPECT_EQ(array.sizes, (Ints{3, 2}));
    EXPECT_EQ(array.strides, (Ints{2, 1}));
  }
  EXPECT_EQ(read(npy(header("'|u1'", "(3L,)"), "abc")).sizes, Ints{3});
}

// ---- What is refused ------------------------------------------------------------------------------------------------

TEST_F(NpyTest, HeadersThatNumPyDoesNotWrite) {
  const std::string start = "its header is not what NumPy writes: expected ";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", start + "'{' at byte 0, found its end"},
      {"   ", start + "'{' at byte 3, found its end"},
      {"[]", start + "'{' at byte 0, found '['"},
      {"{", start + "a string at byte 1, found its end"},
      {"{,}", start + "a string at byte 1, found ','"},
      {"{}", "its header has no key 'descr'"},
      {"{'descr': '|u1', 'shape': (3,)}", "its header has no key 'fortran_order'"},
      {"{'descr': '|u1', 'fortran_order': False}", "its header has no key 'shape'"},
      {"{'descr': '|u1', 'colour': 1}", "its header has an unknown key 'colour'"},
      {"{'a\x1b[2J\x07': 1}", "its header has an unknown key 'a\\x1b[2J\\x07'"},
      {"{'descr': '|u1', \"descr\": '|u1'}", "its header has the key 'descr' twice"},
      {"{'descr' '|u1'}", start + "':' at byte 9, found '''"},
      {"{'descr': }", start + "a value at byte 10, found '}'"},
      {"{'descr': '|u1", "its header has a string without an end"},
      {"{'descr': '|u1\\", "its header has a string without an end"},
      {"{'descr': '|u1\n'}", "its header has a string without an end"},
      {"{'descr': '|u1' 'fortran_order': False}", start + "'}' at byte 16, found '''"},
      {header("'|u1'", "(3,)", "1"), start + "True or False at byte 34, found '1'"},
      {header("'|u1'", "(3,)", "Truer"), start + "True or False at byte 34, found 'T'"},
      {header("'|u1'", "(3,)", "'True'"), start + "True or False at byte 34, found '''"},
      {header("'|u1'", "3"), start + "'(' at byte 50, found '3'"},
      {header("'|u1'", "[3]"), start + "'(' at byte 50, found '['"},
      {header("'|u1'", "(3)"), start + "',' at byte 52, found ')'"},
      {header("'|u1'", "(3.0,)"), start + "',' at byte 52, found '.'"},
      {header("'|u1'", "(3, 4 5)"), start + "')' at byte 56, found '5'"},
      {header("'|u1'", "(,)"), start + "an integer at byte 51, found ','"},
      {header("'|u1'", "(0x3,)"), start + "',' at byte 52, found 'x'"},
      {header("'|u1'", "(3LL,)"), start + "',' at byte 53, found 'L'"},
      {header("'|u1'", "(True,)"), start + "an integer at byte 51, found 'T'"},
      {header("'|u1'", "(3,)") + "x", start + "its end at byte 58, found 'x'"},
      {header("'|u1'", "(3,)") + std::string(1, '\0'), start + "its end at byte 58, found '\\x00'"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    EXPECT_EQ(error_of(npy(text, "abc")), message);
  }
}

TEST_F(NpyTest, TypesThatAreNotSupported) {
  const auto message = [](const std::string& shown) {
    return "its type (descr " + shown + ") " + std::string(supported);
  };
  for (const std::string descr : {"'<c16'",
                                  "'|b1'",
                                  "'|O'",
                                  "'<U5'",
                                  "'|S3'",
                                  "'<M8[ns]'",
                                  "'<m8'",
                                  "'<f16'",
                                  "'|V4'",
                                  "'f'",
                                  "''",
                                  "'<'",
                                  "'<<f4'",
                                  "'float32'",
                                  "'<f4 '",
                                  "'i04'",
                                  "[('a', '<f4'), ('b', '<i4', (2, -3))]",
                                  "('<f4', (2,))",
                                  "None",
                                  "7",
                                  "[]"}) {
    SCOPED_TRACE(descr);
    EXPECT_EQ(error_of(npy(header(descr, "(3,)"))), message(descr));
    EXPECT_EQ(error_of(npy(header(descr, "(3,)")), true), message(descr));
  }
  EXPECT_EQ(error_of(npy(header("\"<c8\"", "(3,)"))), message("'<c8'"));
  EXPECT_EQ(error_of(npy(header("'a\x1b\xc2\x85\xff\xc3\xa9'", "(3,)"))), message("'a\\x1b\\xc2\\x85\\xff\xc3\xa9'"));
  EXPECT_EQ(error_of(npy(header("[\n'a']", "(3,)"))), message("[\\n'a']"));
  EXPECT_EQ(error_of(npy(header("'" + std::string(500, 'f') + "'", "(3,)"))),
            message("'" + std::string(60, 'f') + "...'"));
  EXPECT_EQ(error_of(npy(header("'|V2'", "(3,)"))),
            "its type (descr '|V2') is 2-byte void; --dtype bf16 reads it as bf16");
}

TEST_F(NpyTest, DeepNestingDoesNotExhaustTheStack) {
  EXPECT_EQ(error_of(npy(header(std::string(60000, '['), "(3,)"))), "its header is nested too deeply");
}

TEST_F(NpyTest, ShapesThatAreNotSupported) {
  const auto shape_error = [&](const std::string& shape) { return error_of(npy(header("'<f8'", shape), "abc")); };
  EXPECT_EQ(shape_error("()"), "is a single number (shape ()); tensors have rank 1 to 8");
  EXPECT_EQ(shape_error("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "has rank 9; tensors have rank 1 to 8");
  EXPECT_EQ(shape_error("(2, -3)"), "its shape has the negative size -3");
  EXPECT_EQ(shape_error("(9223372036854775808,)"), "its shape has the size 9223372036854775808, too large");
  EXPECT_EQ(shape_error("(9223372036854775807,)"), "its shape (9223372036854775807,) is too large");
  EXPECT_EQ(shape_error("(4294967296, 4294967296)"), "its shape (4294967296, 4294967296) is too large");
  EXPECT_EQ(shape_error("(0, 4294967296, 4294967296)"), "its shape (0, 4294967296, 4294967296) is too large");
  EXPECT_EQ(shape_error("(" + std::string(100, '9') + ",)"),
            "its shape has the size " + std::string(60, '9') + "..., too large");
}

TEST_F(NpyTest, DataThatIsNotWhatTheHeaderPromises) {
  const std::string text = header("'<f4'", "(3, 2)");
  EXPECT_EQ(error_of(npy(text, std::string(23, 'x'))), "truncated: has 23 bytes of data, its header promises 24");
  EXPECT_EQ(error_of(npy(text)), "truncated: has 0 bytes of data, its header promises 24");
  EXPECT_EQ(error_of(npy(text, std::string(25, 'x'))), "has 25 bytes of data, its header promises only 24");
  EXPECT_EQ(error_of(npy(header("'<f4'", "(0,)"), "x")), "has 1 bytes of data, its header promises only 0");
  EXPECT_EQ(error_of(npy(header("'|u1'", "(1152921504606846976,)"), "abc")),
            "truncated: has 3 bytes of data, its header promises 1152921504606846976");
}

TEST_F(NpyTest, FilesThatAreSomethingElse) {
  EXPECT_EQ(error_of(""), "is empty, not a .npy file");
  EXPECT_EQ(error_of("PK\3\4 and so on"), "is an archive (.npz?), not a .npy file");
  EXPECT_EQ(error_of("1,2,3\n4,5,6\n"), "is not a .npy file");
  EXPECT_EQ(error_of("1"), "is not a .npy file");
  const std::string file = npy(header("'|u1'", "(3,)"), "abc", 2);
  for (const std::size_t length : {1, 5, 6, 7, 8, 11, 12, 40}) {
    EXPECT_EQ(error_of(file.substr(0, length)), "truncated: ends within its header") << length;
  }
}

TEST_F(NpyTest, LongHeaders) {
  const std::string text = header("'|u1'", "(3,)");
  const std::string longest = text + std::string(65536 - text.size(), ' ');
  EXPECT_EQ(text_of(read(npy(longest, "abc", 2)).data), "abc");
  EXPECT_EQ(error_of(npy(longest + " ", "abc", 2)),
            "its header claims a length of 65537 bytes; the longest that is read is 65536");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\3\0\xff\xff\xff\xff", 12)),
            "its header claims a length of 4294967295 bytes; the longest that is read is 65536");
}

TEST_F(NpyTest, PathsThatCannotBeRead) {
  const auto message = [](const std::string& name) { return usage_error([&] { (void)read_npy(name, false); }); };
  EXPECT_EQ(message(path("none.npy")), path("none.npy") + ": No such file or directory");
  EXPECT_EQ(message(folder_.string()), folder_.string() + ": Is a directory");
  EXPECT_EQ(message(put("") + "/a"), path("in.npy") + "/a: Not a directory");
  EXPECT_EQ(message(""), "'': No such file or directory");
  EXPECT_EQ(message("no\nsuch\r\x1b\x7f\xff\xe2\x80\xa8\xc3\xa9"),
            "no\\nsuch\\x0d\\x1b\\x7f\\xff\\xe2\\x80\\xa8\xc3\xa9: No such file or directory");
  EXPECT_EQ(message("/dev/fd/999999"), "/dev/fd/999999: Bad file descriptor");
}

TEST_F(NpyTest, PermissionsAreRespected) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may do everything";
  const std::string file = put(npy(header("'|u1'", "(3,)"), "abc"));
  fs::permissions(file, fs::perms::none);
  EXPECT_EQ(usage_error([&] { (void)read_npy(file, false); }), file + ": Permission denied");
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_EQ(usage_error([&] { write(file); }), file + ": Permission denied");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(usage_error([&] { write(path("new.npy")); }), path("new.npy") + ": Permission denied");
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(names(), Names{"in.npy"});
}

// Whatever a file holds, reading it succeeds or throws a UsageError.
TEST_F(NpyTest, DamagedFilesAreOnlyEverUsageErrors) {
  const std::vector<std::string> files{
      npy(header("'<f4'", "(3, 4)"), text_of(counting_bytes(48))),
      npy(header("'>u2'", "(2, 2, 2)", "True"), text_of(counting_bytes(16)), 2),
      npy(header("[('a', '<f4'), ('b', '<i4', (2,))]", "(3,)"), text_of(counting_bytes(36)), 3)};
  int succeeded = 0, refused = 0;
  const auto attempt = [&](const std::string& file) {
    try {
      const NpyArray array = read(file, true);
      ASSERT_EQ(array.sizes.size(), array.strides.size());
      ++succeeded;
    } catch (const UsageError& error) {
      ASSERT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      ++refused;
    }
  };
  std::mt19937 random(20240607);
  for (const std::string& file : files) {
    for (std::size_t length = 0; length < file.size(); ++length) attempt(file.substr(0, length));
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = file;
      for (auto flips = random() % 4 + 1; flips > 0; --flips) {
        damaged[random() % damaged.size()] = static_cast<char>(random() & 0xff);
      }
      if (random() % 4 == 0) damaged.resize(random() % damaged.size());
      attempt(damaged);
    }
  }
  EXPECT_GT(succeeded, 100);
  EXPECT_GT(refused, 1000);
}

// ---- Streams --------------------------------------------------------------------------------------------------------

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_writer() { ::close(std::exchange(ends_[1], -1)); }
  void send(const std::string& text) const {
    std::string_view rest = text;
    while (!rest.empty()) {
      const ssize_t count = ::write(ends_[1], rest.data(), rest.size());
      ASSERT_GT(count, 0);
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  [[nodiscard]] std::string reader() const { return "/dev/fd/" + std::to_string(ends_[0]); }
  [[nodiscard]] std::string writer() const { return "/dev/fd/" + std::to_string(ends_[1]); }

 private:
  int ends_[2]{-1, -1};
};

TEST_F(NpyTest, PipesAreWrittenAndRead) {
  Pipe pipe;
  write(pipe.writer(), 'p');
  pipe.close_writer();
  EXPECT_EQ(text_of(read_npy(pipe.reader(), false).data), "ppp");
}

TEST_F(NpyTest, LongStreamsArrivePieceByPiece) {
  const std::string data = text_of(counting_bytes(5'000'001));
  Pipe pipe;
  std::thread sender([&] {
    pipe.send(npy(header("'|u1'", "(5000001,)"), data));
    pipe.close_writer();
  });
  const NpyArray array = read_npy(pipe.reader(), false);
  sender.join();
  EXPECT_TRUE(text_of(array.data) == data);
}

TEST_F(NpyTest, StreamsThatDoNotHoldWhatTheyPromise) {
  const auto message = [](const std::string& text) {
    Pipe pipe;
    pipe.send(text);
    pipe.close_writer();
    return usage_error([&] { (void)read_npy(pipe.reader(), false); }).substr(pipe.reader().size());
  };
  EXPECT_EQ(message(""), ": is empty, not a .npy file");
  EXPECT_EQ(message(npy(header("'|u1'", "(3,)"), "ab")), ": truncated: has 2 bytes of data, its header promises 3");
  EXPECT_EQ(message(npy(header("'|u1'", "(3,)"), "abcde")),
            ": has at least 4 bytes of data, its header promises only 3");
  EXPECT_EQ(message(npy(header("'|u1'", "(1152921504606846976,)"), "abc")),
            ": truncated: has 3 bytes of data, its header promises 1152921504606846976");
}

TEST_F(NpyTest, NamedPipesAreWrittenAndRead) {
  const std::string fifo = path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread sender([&] { write(fifo, 'f'); });
  const NpyArray array = read_npy(fifo, false);
  sender.join();
  EXPECT_EQ(text_of(array.data), "fff");
  EXPECT_EQ(names(), Names{"fifo"});
}

// As in `{ backpass ...; backpass ...; } > file`: each continues where the one before stopped.
TEST_F(NpyTest, DescriptorsKeepTheirPosition) {
  const int descriptor = ::open(path("both").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(descriptor, 0);
  const std::string name = "/dev/fd/" + std::to_string(descriptor);
  write(name, 'a');
  write(name, 'b');
  const std::string both = content("both");
  ASSERT_EQ(both.size() % 2, 0U);
  EXPECT_TRUE(both.ends_with("bbb"));
  ASSERT_GE(::lseek(descriptor, static_cast<off_t>(both.size() / 2), SEEK_SET), 0);
  EXPECT_EQ(text_of(read_npy(name, false).data), "bbb");
  ::close(descriptor);
}

// ---- Together or not at all -----------------------------------------------------------------------------------------

TEST_F(NpyTest, NothingAppearsBeforeCommit) {
  put("old", "a.npy");
  NpyWriter writer;
  add(writer, path("a.npy"));
  add(writer, path("b.npy"), 'b');
  EXPECT_EQ(content("a.npy"), "old");
  EXPECT_FALSE(fs::exists(path("b.npy")));
  writer.commit();
  EXPECT_EQ(data_of("a.npy"), "aaa");
  EXPECT_EQ(data_of("b.npy"), "bbb");
  EXPECT_EQ(names(), (Names{"a.npy", "b.npy"}));
  writer.commit();  // nothing is left to do
  EXPECT_EQ(data_of("a.npy"), "aaa");
}

TEST_F(NpyTest, WhatIsNotCommittedIsRemoved) {
  put("old", "a.npy");
  {
    NpyWriter writer;
    add(writer, path("a.npy"));
    add(writer, path("b.npy"));
  }
  EXPECT_EQ(names(), Names{"a.npy"});
  EXPECT_EQ(content("a.npy"), "old");
}

TEST_F(NpyTest, AnOutputThatCannotBeAddedLeavesTheOthersAsTheyWere) {
  NpyWriter writer;
  add(writer, path("a.npy"));
  const std::string missing = path("none/b.npy");
  EXPECT_EQ(usage_error([&] { add(writer, missing); }), missing + ": No such file or directory");
  EXPECT_EQ(usage_error([&] { add(writer, folder_.string()); }), folder_.string() + ": Is a directory");
  EXPECT_EQ(usage_error([&] { add(writer, path("new/")); }), path("new/") + ": Is a directory");
  EXPECT_EQ(usage_error([&] { add(writer, ""); }), "'': No such file or directory");
  EXPECT_EQ(usage_error([&] { add(writer, path(std::string(300, 'n'))); }),
            path(std::string(300, 'n')) + ": File name too long");
  EXPECT_EQ(names().size(), 1U);  // the first one's temporary
  writer.commit();
  EXPECT_EQ(names(), Names{"a.npy"});
}

TEST_F(NpyTest, TheLongestNameIsNotTooLong) {
  const std::string name(255, 'n');
  write(path(name));
  EXPECT_EQ(names(), Names{name});
}

TEST_F(NpyTest, TwoOutputsCannotBeOneFile) {
  NpyWriter writer;
  add(writer, path("a.npy"));
  EXPECT_EQ(usage_error([&] { add(writer, path("a.npy")); }), path("a.npy") + ": is named for two outputs");
  EXPECT_EQ(usage_error([&] { add(writer, path("./a.npy")); }), path("./a.npy") + ": is named for two outputs");
}

TEST_F(NpyTest, AFailedCommitRestoresWhatWasThere) {
  put("old", "a.npy");
  NpyWriter writer;
  add(writer, path("a.npy"));
  add(writer, path("b.npy"));
  add(writer, path("c.npy"));
  add(writer, path("d.npy"));
  fs::create_directory(path("c.npy"));  // so that its rename fails, after two have succeeded
  EXPECT_EQ(usage_error([&] { writer.commit(); }), path("c.npy") + ": Is a directory");
  EXPECT_EQ(names(), (Names{"a.npy", "c.npy"}));
  EXPECT_EQ(content("a.npy"), "old");
}

TEST_F(NpyTest, AFailedDirectWriteLeavesNothing) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  put("old", "a.npy");
  NpyWriter writer;
  add(writer, path("a.npy"));
  add(writer, path("b.npy"));
  add(writer, "/dev/full");
  EXPECT_EQ(usage_error([&] { writer.commit(); }), "/dev/full: No space left on device");
  EXPECT_EQ(names(), Names{"a.npy"});
  EXPECT_EQ(content("a.npy"), "old");
}

// The limit on the size of files stands in for a full disk.
TEST_F(NpyTest, AFailedWriteLeavesNothing) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 200, .rlim_max = limit.rlim_max};
  put("old", "a.npy");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message =
      usage_error([&] { write_npy(path("a.npy"), BP_U8, {1000}, counting_bytes(1000), false); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, path("a.npy") + ": File too large");
  EXPECT_EQ(names(), Names{"a.npy"});
  EXPECT_EQ(content("a.npy"), "old");
}

TEST_F(NpyTest, LinksAreFollowed) {
  put("old", "real.npy");
  fs::create_symlink("real.npy", path("link.npy"));
  fs::create_symlink("new.npy", path("dangling.npy"));
  write(path("link.npy"), 'l');
  write(path("dangling.npy"), 'd');
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  EXPECT_TRUE(fs::is_symlink(path("dangling.npy")));
  EXPECT_EQ(data_of("real.npy"), "lll");
  EXPECT_EQ(data_of("new.npy"), "ddd");
  EXPECT_EQ(names(), (Names{"real.npy", "link.npy", "dangling.npy", "new.npy"}));
}

TEST_F(NpyTest, AReplacedFileKeepsItsMode) {
  const auto mode = [&](const std::string& name) { return fs::status(path(name)).permissions(); };
  put("old", "a.npy");
  fs::permissions(path("a.npy"), static_cast<fs::perms>(0620));
  write(path("a.npy"));
  EXPECT_EQ(mode("a.npy"), static_cast<fs::perms>(0620));
  put("", "made_by_others");
  write(path("b.npy"));
  EXPECT_EQ(mode("b.npy"), mode("made_by_others"));
}

TEST_F(NpyTest, RelativePaths) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write("a.npy");
  write("./b.npy");
  fs::current_path(before);
  EXPECT_EQ(names(), (Names{"a.npy", "b.npy"}));
}

}  // namespace
}  // namespace tools
