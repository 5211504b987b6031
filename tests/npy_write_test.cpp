// SPDX-License-Identifier: Apache-2.0
// Writing .npy files: what is written is read again, streams too, and a failure leaves nothing.
#include "npy_support.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <stdexcept>
#include <thread>
#include <utility>

namespace tools {
namespace {

// ---- Round trips ----------------------------------------------------------------------------------------------------

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

}  // namespace
}  // namespace tools
