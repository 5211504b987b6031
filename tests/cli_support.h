// SPDX-License-Identifier: Apache-2.0
// The command line as a user meets it: a process with arguments, files, pipes and an exit code. Every test works in a
// folder of its own, which is also the working directory of the program, so that commands and messages name files
// plainly.
#pragma once

#include "npy.h"
#include "support.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;

namespace cli {

using tools::Ints;
using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

inline constexpr std::array<std::string_view, 9> kOperators{"relu",          "relu-grad",  "max-pool",
                                                            "max-pool-grad", "resample",   "resample-grad",
                                                            "slice",         "slice-grad", "convert-winners"};

// "run relu --x x.npy" -> its words. What holds a space or is empty is given as Words.
inline Words words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

inline Words lines(const std::string& text) {
  Words result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

// ---- A process -----------------------------------------------------------------------------------------

struct Outcome {
  int exit_code = -1;  // minus the signal where one ended it
  std::string out, err;
};

inline std::ostream& operator<<(std::ostream& stream, const Outcome& outcome) {
  constexpr std::size_t kEnough = 600;
  return stream << "exit " << outcome.exit_code << "\nstdout: " << outcome.out.substr(0, kEnough)
                << "\nstderr: " << outcome.err.substr(0, kEnough);
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() { close(read); }
  void close_write() { close(write); }

  int read = -1;
  int write = -1;

 private:
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

class Process {
 public:
  Process(const Words& arguments, const std::string& folder, const Environment& changes) {
    Words environment = merged_environment(changes);
    Words command{BACKPASS_CLI};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::vector<char*> argv = pointers(command);
    const std::vector<char*> envp = pointers(environment);
    child_ = ::fork();
    if (child_ == 0) become(argv, envp, folder);
    in_.close_read();
    out_.close_write();
    err_.close_write();
  }

  // Feeds the input and collects what is said, until the program closes its ends. One that hangs is ended.
  Outcome finish(std::string_view input) {
    Outcome outcome;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (out_.read >= 0 || err_.read >= 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        ADD_FAILURE() << "the program hangs";
        ::kill(child_, SIGKILL);
        break;
      }
      if (input.empty()) in_.close_write();
      std::array<pollfd, 3> ends{{{in_.write, POLLOUT, 0}, {out_.read, POLLIN, 0}, {err_.read, POLLIN, 0}}};
      ::poll(ends.data(), ends.size(), static_cast<int>(left.count()));
      if (ends[0].revents != 0) feed(input);
      if (ends[1].revents != 0) collect(out_, outcome.out);
      if (ends[2].revents != 0) collect(err_, outcome.err);
    }
    int status = 0;
    ::waitpid(child_, &status, 0);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return outcome;
  }

 private:
  // The caller's environment without our variables, so that what a developer has set changes no test.
  static Words merged_environment(const Environment& changes) {
    Words result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with("BACKPASS_")) result.emplace_back(*entry);
    }
    for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
    return result;
  }

  static std::vector<char*> pointers(Words& strings) {
    std::vector<char*> result;
    for (std::string& s : strings) result.push_back(s.data());
    result.push_back(nullptr);
    return result;
  }

  // In the child: nothing but system calls.
  [[noreturn]] void become(const std::vector<char*>& argv, const std::vector<char*>& envp,
                           const std::string& folder) const {
    ::signal(SIGPIPE, SIG_DFL);
    const bool ready = ::dup2(in_.read, STDIN_FILENO) >= 0 && ::dup2(out_.write, STDOUT_FILENO) >= 0 &&
                       ::dup2(err_.write, STDERR_FILENO) >= 0 && ::chdir(folder.c_str()) == 0;
    for (const int end : {in_.read, in_.write, out_.read, out_.write, err_.read, err_.write}) ::close(end);
    if (ready) ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }

  void feed(std::string_view& input) {
    const ssize_t count = ::write(in_.write, input.data(), input.size());
    if (count >= 0) {
      input.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR && errno != EAGAIN) {
      input = {};  // it does not want more
    }
  }

  static void collect(Pipe& pipe, std::string& text) {
    std::array<char, 65536> room{};
    const ssize_t count = ::read(pipe.read, room.data(), room.size());
    if (count > 0) text.append(room.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) pipe.close_read();
  }

  Pipe in_, out_, err_;
  pid_t child_ = -1;
};

// ---- Files ---------------------------------------------------------------------------------------------

// A whole .npy file byte by byte, as others than us may write it.
inline std::string npy_file(const std::string& descr, const std::string& shape, const std::string& data,
                            int version = 1, const std::string& fortran_order = "False") {
  const std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }\n";
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

template <class T>
std::string big_endian(const std::vector<T>& values) {
  std::string bytes;
  for (const T& v : values) {
    std::array<char, sizeof(T)> raw{};
    std::memcpy(raw.data(), &v, sizeof(T));
    bytes.append(raw.rbegin(), raw.rend());
  }
  return bytes;
}

template <class T>
std::string little_endian(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
struct Array {
  Ints sizes;
  std::vector<T> values;
  // By bits: a NaN equals itself and -0 is not +0.
  bool operator==(const Array& other) const {
    return sizes == other.sizes && little_endian(values) == little_endian(other.values);
  }
};

template <class T>
void PrintTo(const Array<T>& array, std::ostream* stream) {
  *stream << testing::PrintToString(array.sizes) << " " << testing::PrintToString(array.values);
}

// ---- The fixture ---------------------------------------------------------------------------------------

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);  // a program that ends early does not end the test
    std::string pattern = (std::filesystem::temp_directory_path() / "backpass_cli.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = std::filesystem::canonical(pattern);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // ---- Running ----
  [[nodiscard]] Outcome outcome(const Words& arguments, const Environment& environment = {},
                                std::string_view input = "") const {
    return Process(arguments, folder_.string(), environment).finish(input);
  }
  [[nodiscard]] Outcome outcome(const std::string& line, const Environment& environment = {},
                                std::string_view input = "") const {
    return outcome(words(line), environment, input);
  }

  // Must succeed without a complaint; returns what it printed.
  std::string succeed(const std::string& line, const Environment& environment = {}) const {
    const Outcome result = outcome(line, environment);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result;
    EXPECT_EQ(result.err, "") << line;
    return result.out;
  }

  // Bad input: exit 2, one line on stderr that holds `fragment`, nothing on stdout, and the folder as it was.
  void refuse(const Words& arguments, std::string_view fragment, const Environment& environment = {},
              std::string_view input = "") const {
    const auto before = snapshot();
    const Outcome result = outcome(arguments, environment, input);
    std::string wrong;
    if (result.exit_code != 2) wrong += "the exit code is not 2; ";
    if (!result.out.empty()) wrong += "stdout is not empty; ";
    if (!is_one_plain_line(result.err)) wrong += "stderr is not one line 'backpass: ...' without control characters; ";
    if (result.err.find(fragment) == std::string::npos)
      wrong += "stderr does not speak of '" + std::string(fragment) + "'; ";
    if (snapshot() != before) wrong += "a file was written; ";
    EXPECT_EQ(wrong, "") << testing::PrintToString(arguments) << "\n" << result;
  }
  void refuse(const std::string& line, std::string_view fragment, const Environment& environment = {},
              std::string_view input = "") const {
    refuse(words(line), fragment, environment, input);
  }

  // ---- Files ----
  template <class T>
  void put(const std::string& name, const Ints& sizes, const std::vector<T>& values) const {
    put(name, support::dtype_of<T>(), sizes, values);
  }
  template <class T>
  void put(const std::string& name, std::int32_t dtype, const Ints& sizes, const std::vector<T>& values,
           bool as_void = false) const {
    tools::write_npy(path(name), dtype, sizes, std::as_bytes(std::span(values)), as_void);
  }
  void put_text(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }

  // Outputs are packed, row-major, and of the type that T stands for.
  template <class T>
  [[nodiscard]] Array<T> get(const std::string& name, std::int32_t dtype = support::dtype_of<T>()) const {
    if (!std::filesystem::exists(path(name))) {
      ADD_FAILURE() << "no file " << name;
      return {};
    }
    const tools::NpyArray array = tools::read_npy(path(name), dtype == BP_BF16);
    EXPECT_EQ(tools::dtype_name(array.dtype), tools::dtype_name(dtype)) << name;
    Array<T> result{array.sizes, std::vector<T>(array.data.size() / sizeof(T))};
    std::memcpy(result.values.data(), array.data.data(), result.values.size() * sizeof(T));
    return result;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Every file of the folder, hidden ones too, with what it holds.
  [[nodiscard]] std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      const std::string name = std::filesystem::relative(entry.path(), folder_).string();
      files[name] = entry.is_regular_file() ? content(name) : "";
    }
    return files;
  }

 private:
  static bool is_one_plain_line(const std::string& text) {
    return text.starts_with("backpass: ") && text.find('\n') == text.size() - 1 &&
           text.find_first_of("\r\x1b") == std::string::npos;
  }

  std::filesystem::path folder_;
};

}  // namespace cli
