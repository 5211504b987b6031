// SPDX-License-Identifier: Apache-2.0
// Reading .npy files: what is accepted, and the sentence for what is not.
#include "npy_support.h"

#include <bit>
#include <cstring>
#include <random>
#include <utility>

namespace tools {
namespace {

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

constexpr std::string_view supported =
    "is not supported; the supported types are f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1, and V2 with --dtype bf16";

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
  EXPECT_EQ(error_of(npy(header("'<f4'", "(0,)"), "x")), "has 1 byte of data, its header promises only 0");
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

}  // namespace
}  // namespace tools
