// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include "npy_header.h"
#include "printable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

namespace tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPrefixSize = kMagic.size() + 2;  // and the two bytes of the version
constexpr std::size_t kMaxHeader = std::size_t{64} * 1024;
constexpr std::size_t kDataAlignment = 64;
constexpr std::string_view kSupportedTypes = "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1, and V2 with --dtype bf16";

// ---- Messages -------------------------------------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& what) { throw UsageError(what); }

[[noreturn]] void fail_with_reason(int error) { fail(std::generic_category().message(error)); }

// Everything below throws a bare "what is wrong"; this puts the path before it.
template <class Function>
auto naming(const std::string& path, Function function) {
  const auto named = [&](std::string_view what) {
    return UsageError(fmt::format("{}: {}", path.empty() ? "''" : printable(path), what));
  };
  try {
    return function();
  } catch (const UsageError& error) {
    throw named(error.what());
  } catch (const fs::filesystem_error& error) {
    throw named(error.code().message());
  } catch (const std::bad_alloc&) {
    throw named("not enough memory for its data");
  }
}

// ---- Files ----------------------------------------------------------------------------------------------------------

// The descriptor that a path like /dev/stdout stands for. Opening such a path anew would fail for a socket, and would
// start again at the beginning of a file that the shell has redirected to.
std::optional<int> descriptor_named_by(std::string_view path) {
  if (path == "/dev/stdin") return STDIN_FILENO;
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view digits = path.substr(folder.size());
    int number = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) return number;
  }
  return std::nullopt;
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {
    if (descriptor < 0) fail_with_reason(errno);
  }
  File(const std::string& path, int flags) : File(open_or_duplicate(path, flags)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Fills `room` as far as the file reaches; returns how far that is.
  [[nodiscard]] std::size_t read(std::span<std::byte> room) const {
    std::size_t done = 0;
    while (done < room.size()) {
      const ssize_t count = ::read(descriptor_, room.data() + done, std::min(room.size() - done, kLargestTransfer));
      if (count == 0) break;
      if (count > 0) done += static_cast<std::size_t>(count);
      if (count < 0 && errno != EINTR) fail_with_reason(errno);
    }
    return done;
  }

  void write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestTransfer));
      if (count >= 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
      if (count < 0 && errno != EINTR) fail_with_reason(errno);
    }
  }

  // As far as the file system knows modes.
  void set_mode(mode_t mode) const { ::fchmod(descriptor_, mode); }

  // Some file systems report a full disk only here.
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_with_reason(errno);
  }

  // The bytes from here to the end, where that can be known without reading them.
  [[nodiscard]] std::optional<std::uint64_t> bytes_left() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    const off_t position = ::lseek(descriptor_, 0, SEEK_CUR);
    // Generated files, such as those of /proc, claim to be empty.
    if (position < 0 || status.st_size < position) return std::nullopt;
    return static_cast<std::uint64_t>(status.st_size - position);
  }

 private:
  static int open_or_duplicate(const std::string& path, int flags) {
    if (const auto descriptor = descriptor_named_by(path)) return ::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0);
    return ::open(path.c_str(), flags | O_CLOEXEC);
  }

  // Systems differ in what they do beyond 2 GiB at once.
  static constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;
  int descriptor_;
};

// ---- Types and sizes ------------------------------------------------------------------------------------------------

struct NamedType {
  std::string_view code;
  std::int32_t dtype;
};
constexpr std::array<NamedType, 11> kNamedTypes{{{"f8", BP_F64},
                                                 {"f4", BP_F32},
                                                 {"f2", BP_F16},
                                                 {"i8", BP_I64},
                                                 {"i4", BP_I32},
                                                 {"i2", BP_I16},
                                                 {"i1", BP_I8},
                                                 {"u8", BP_U64},
                                                 {"u4", BP_U32},
                                                 {"u2", BP_U16},
                                                 {"u1", BP_U8}}};

struct ElementType {
  std::int32_t dtype = 0;
  bool void_type = false;
  bool swapped = false;  // the file's byte order is not this machine's
};

[[noreturn]] void fail_for_type(const NpyHeader& header) {
  const std::string quote = header.descr_is_string ? "'" : "";
  fail(fmt::format("its type (descr {}{}{}) is not supported; the supported types are {}", quote,
                   shortened(header.descr), quote, kSupportedTypes));
}

ElementType element_type(const NpyHeader& header, bool as_bf16) {
  if (!header.descr_is_string) fail_for_type(header);
  std::string_view code = header.descr;
  ElementType type;
  if (!code.empty() && std::string_view("<>=|").find(code.front()) != std::string_view::npos) {
    constexpr char foreign = std::endian::native == std::endian::little ? '>' : '<';
    type.swapped = code.front() == foreign;
    code.remove_prefix(1);
  }
  if (code == "V2" && !as_bf16) {
    fail(fmt::format("its type (descr '{}') is 2-byte void; --dtype bf16 reads it as bf16", header.descr));
  }
  type.void_type = code == "V2";
  if (as_bf16 && (code == "V2" || code == "u2")) {
    type.dtype = BP_BF16;
    return type;
  }
  const auto found = std::ranges::find(kNamedTypes, code, &NamedType::code);
  if (found == kNamedTypes.end()) fail_for_type(header);
  type.dtype = found->dtype;
  return type;
}

// '<V2' rather than '|V2' names the byte order, which plain void does not have but bf16 does.
std::string descr_of(std::int32_t dtype, bool bf16_as_void) {
  if (dtype == BP_BF16) return bf16_as_void ? "<V2" : "<u2";
  const auto found = std::ranges::find(kNamedTypes, dtype, &NamedType::dtype);
  if (found == kNamedTypes.end()) throw std::logic_error("write_npy: no such dtype");
  return fmt::format("{}{}", dtype_size(dtype) == 1 ? '|' : '<', found->code);
}

// As Python writes a tuple.
std::string shape_text(const Ints& sizes) {
  return fmt::format("({}{})", fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
}

// The bytes of a packed array; nothing where they, or its strides, cannot be counted in 63 bits. An empty array has
// strides all the same, so its other sizes must fit too.
std::optional<std::uint64_t> byte_count(const Ints& sizes, std::size_t element_size) {
  auto count = static_cast<std::int64_t>(element_size);
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count)) return std::nullopt;
  }
  return std::ranges::count(sizes, 0) > 0 ? 0 : static_cast<std::uint64_t>(count);
}

Ints packed_strides(const Ints& sizes, bool fortran_order) {
  Ints strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t axis = fortran_order ? i : sizes.size() - 1 - i;
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return strides;
}

void swap_bytes(std::span<std::byte> data, std::size_t element_size) {
  for (; !data.empty(); data = data.subspan(element_size)) std::ranges::reverse(data.first(element_size));
}

// ---- Reading --------------------------------------------------------------------------------------------------------

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

void read_magic_and_version(File& file, std::span<std::byte, kPrefixSize> room) {
  const std::string_view text = as_text(std::span(room).first(file.read(room)));
  if (text.empty()) fail("is empty, not a .npy file");
  if (text.starts_with("PK\x03\x04")) fail("is an archive (.npz?), not a .npy file");
  if (!kMagic.starts_with(text.substr(0, kMagic.size()))) fail("is not a .npy file");
  if (text.size() < kPrefixSize) fail("truncated: ends within its header");
}

std::size_t read_header_length(File& file, std::size_t field_size) {
  std::array<std::byte, 4> field{};
  if (file.read(std::span(field).first(field_size)) < field_size) fail("truncated: ends within its header");
  std::size_t length = 0;
  for (std::size_t i = field_size; i-- > 0;) length = length << 8 | std::to_integer<std::size_t>(field[i]);
  return length;
}

NpyHeader read_header(File& file) {
  std::array<std::byte, kPrefixSize> prefix{};
  read_magic_and_version(file, prefix);
  const int major = std::to_integer<int>(prefix[kMagic.size()]);
  const int minor = std::to_integer<int>(prefix[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(fmt::format("is a .npy file of version {}.{}; the supported versions are 1.0, 2.0 and 3.0", major, minor));
  }
  const std::size_t length = read_header_length(file, major == 1 ? 2 : 4);
  if (length > kMaxHeader) {
    fail(fmt::format("its header claims a length of {} bytes; the longest that is read is {}", length, kMaxHeader));
  }
  std::vector<std::byte> text(length);
  if (file.read(text) < length) fail("truncated: ends within its header");
  return parse_npy_header(as_text(text));
}

void check_rank(const Ints& sizes) {
  if (sizes.empty()) fail("is a single number (shape ()); tensors have rank 1 to 8");
  if (sizes.size() > BP_MAX_RANK) fail(fmt::format("has rank {}; tensors have rank 1 to 8", sizes.size()));
}

[[noreturn]] void fail_truncated(std::uint64_t found, std::uint64_t promised) {
  fail(fmt::format("truncated: has {} of data, its header promises {}", counted(found, "byte", "bytes"), promised));
}

void check_bytes_left(const File& file, std::uint64_t promised) {
  const auto left = file.bytes_left();
  if (!left || *left == promised) return;
  if (*left < promised) fail_truncated(*left, promised);
  fail(fmt::format("has {} of data, its header promises only {}", counted(*left, "byte", "bytes"), promised));
}

// The room grows with what arrives, never with what the header promises.
std::vector<std::byte> read_promised(File& file, std::uint64_t promised) {
  constexpr std::uint64_t first_room = 1 << 20;
  std::vector<std::byte> data;
  std::uint64_t room = std::min(promised, file.bytes_left().value_or(first_room));
  for (;;) {
    const std::size_t before = data.size();
    data.resize(room);
    const std::size_t after = before + file.read(std::span(data).subspan(before));
    if (after < room) fail_truncated(after, promised);
    if (room == promised) return data;
    room = std::min(promised, std::max(2 * room, first_room));
  }
}

std::vector<std::byte> read_data(File& file, std::uint64_t promised) {
  check_bytes_left(file, promised);
  std::vector<std::byte> data = read_promised(file, promised);
  // A stream is not read on to its end, since it may have none.
  std::array<std::byte, 1> extra{};
  if (file.read(extra) > 0) {
    fail(fmt::format("has at least {} of data, its header promises only {}", counted(promised + 1, "byte", "bytes"),
                     promised));
  }
  return data;
}

NpyArray read_array(const std::string& path, bool as_bf16) {
  File file(path, O_RDONLY);
  const NpyHeader header = read_header(file);
  const ElementType type = element_type(header, as_bf16);
  check_rank(header.shape);
  const auto bytes = byte_count(header.shape, dtype_size(type.dtype));
  if (!bytes) fail(fmt::format("its shape {} is too large", shape_text(header.shape)));
  NpyArray array{.dtype = type.dtype,
                 .sizes = header.shape,
                 .strides = packed_strides(header.shape, header.fortran_order),
                 .data = read_data(file, *bytes),
                 .void_type = type.void_type};
  if (type.swapped) swap_bytes(array.data, dtype_size(type.dtype));
  return array;
}

// ---- Writing --------------------------------------------------------------------------------------------------------

// Wrong arguments are a defect of the caller's, not of the user's.
void check_arguments(std::int32_t dtype, const Ints& sizes, std::span<const std::byte> data) {
  const bool rank_fits = !sizes.empty() && sizes.size() <= BP_MAX_RANK;
  const bool sizes_fit = std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; });
  if (!rank_fits || !sizes_fit || byte_count(sizes, dtype_size(dtype)) != data.size()) {
    throw std::logic_error(fmt::format("write_npy: {} bytes for shape {}", data.size(), shape_text(sizes)));
  }
}

std::string header_text(std::int32_t dtype, const Ints& sizes, bool bf16_as_void) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                 descr_of(dtype, bf16_as_void), shape_text(sizes));
  constexpr std::size_t before = kPrefixSize + 2;  // two bytes of length
  const std::size_t whole = (before + text.size() + 1 + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  text.resize(whole - before - 1, ' ');
  text += '\n';
  const std::string length{static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  const std::string version{'\1', '\0'};
  return std::string(kMagic) + version + length + text;
}

void write_contents(File& file, const std::string& header, std::int32_t dtype, std::span<const std::byte> data) {
  file.write(as_bytes(header));
  if constexpr (std::endian::native == std::endian::little) {
    file.write(data);
  } else {
    std::vector<std::byte> swapped(data.begin(), data.end());
    swap_bytes(swapped, dtype_size(dtype));
    file.write(swapped);
  }
  file.close();
}

// A file's name that is taken away at the end of its life, unless released.
class TemporaryName {
 public:
  TemporaryName() = default;
  explicit TemporaryName(std::string name) : name_(std::move(name)) {}
  ~TemporaryName() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  TemporaryName(TemporaryName&& other) noexcept : name_(std::exchange(other.name_, {})) {}
  TemporaryName& operator=(TemporaryName&& other) noexcept {
    std::swap(name_, other.name_);
    return *this;
  }

  [[nodiscard]] const char* c_str() const { return name_.c_str(); }
  [[nodiscard]] bool empty() const { return name_.empty(); }
  void release() { name_.clear(); }

 private:
  std::string name_;
};

// Short whatever the target is called, so that it never exceeds the longest name that the file system takes.
std::string unused_name_beside(const std::string& target) {
  std::random_device random;
  for (;;) {
    const std::string name = fmt::format(".backpass-{:08x}{:08x}.tmp", random(), random());
    const fs::path path = fs::path(target).replace_filename(name);
    if (!fs::exists(fs::symlink_status(path))) return path.string();
  }
}

// Where a path leads once links are followed: a rename must replace the file, not the link to it.
std::string followed(const std::string& path) {
  fs::path target = path;
  while (fs::is_symlink(fs::symlink_status(target))) target = target.parent_path() / fs::read_symlink(target);
  if (!target.has_filename()) fail_with_reason(EISDIR);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  return (fs::canonical(folder) / target.filename()).string();
}

// The mode of what is at the path, if anything is. A write-protected file is refused, which a rename would not do.
std::optional<mode_t> existing_mode(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT && !path.empty()) return std::nullopt;
    fail_with_reason(errno);
  }
  if (S_ISDIR(status.st_mode)) fail_with_reason(EISDIR);
  if (::access(path.c_str(), W_OK) != 0) fail_with_reason(errno);
  return status.st_mode;
}

}  // namespace

struct NpyWriter::Output {
  std::string path;    // as the user wrote it
  std::string target;  // the file to replace; empty where the path is written directly
  TemporaryName fresh;
  TemporaryName old;  // the target's former content, as long as it may have to come back
  bool renamed = false;

  // What a direct write needs.
  std::string header;
  std::int32_t dtype = 0;
  std::vector<std::byte> data;

  void write_directly() const {
    File file(path, O_WRONLY);
    write_contents(file, header, dtype, data);
  }

  void write_temporary(std::optional<mode_t> mode, std::span<const std::byte> bytes) {
    const std::string name = unused_name_beside(target);
    const mode_t permissions = mode.value_or(0666) & 0777;
    File file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions));
    fresh = TemporaryName(name);
    if (mode) file.set_mode(permissions);  // a replaced file keeps its own, whatever the umask
    write_contents(file, header, dtype, bytes);
  }

  // A hard link leaves the target in its place all the time; not every file system has them.
  void set_old_aside() {
    if (!fs::is_regular_file(fs::symlink_status(target))) return;
    const std::string name = unused_name_beside(target);
    if (::link(target.c_str(), name.c_str()) != 0 && ::rename(target.c_str(), name.c_str()) != 0) {
      fail_with_reason(errno);
    }
    old = TemporaryName(name);
  }

  void replace_target() {
    if (::rename(fresh.c_str(), target.c_str()) != 0) fail_with_reason(errno);
    fresh.release();
    renamed = true;
  }

  void undo() noexcept {
    if (old.empty()) {
      if (renamed) ::unlink(target.c_str());
    } else if (::rename(old.c_str(), target.c_str()) != 0) {
      old.release();  // the last copy of the user's data: left behind rather than lost
    }
  }
};

NpyArray read_npy(const std::string& path, bool as_bf16) {
  return naming(path, [&] { return read_array(path, as_bf16); });
}

NpyWriter::NpyWriter() = default;
NpyWriter::~NpyWriter() = default;

void NpyWriter::add(const std::string& path, std::int32_t dtype, const Ints& sizes, std::span<const std::byte> data,
                    bool bf16_as_void) {
  Output output;
  output.path = path;
  output.header = header_text(dtype, sizes, bf16_as_void);
  output.dtype = dtype;
  check_arguments(dtype, sizes, data);
  naming(path, [&] {
    const bool descriptor = descriptor_named_by(path).has_value();
    const auto mode = descriptor ? std::nullopt : existing_mode(path);
    if (descriptor || (mode && !S_ISREG(*mode))) {
      output.data.assign(data.begin(), data.end());
    } else {
      output.target = followed(path);
      const bool taken = std::ranges::find(outputs_, output.target, &Output::target) != outputs_.end();
      if (taken) fail("is named for two outputs");
      output.write_temporary(mode, data);
    }
    outputs_.push_back(std::move(output));
  });
}

void NpyWriter::commit() {
  std::vector<Output> outputs = std::exchange(outputs_, {});
  std::ranges::stable_partition(outputs, [](const Output& output) { return output.target.empty(); });
  try {
    for (Output& output : outputs) {
      naming(output.path, [&] {
        if (output.target.empty()) return output.write_directly();
        // The last rename either happens or does not; nothing comes after it that could fail.
        if (&output != &outputs.back()) output.set_old_aside();
        output.replace_target();
      });
    }
  } catch (...) {
    for (Output& output : outputs) output.undo();
    throw;
  }
}

void write_npy(const std::string& path, std::int32_t dtype, const Ints& sizes, std::span<const std::byte> data,
               bool bf16_as_void) {
  NpyWriter writer;
  writer.add(path, dtype, sizes, data, bf16_as_void);
  writer.commit();
}

}  // namespace tools
