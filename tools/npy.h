// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, as `backpass run` reads and writes them. Whatever is wrong with a file is thrown as a UsageError
// of one line, "PATH: what is wrong".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "problem.h"

namespace tools {

struct NpyArray {
  std::int32_t dtype = 0;       // bp_dtype
  Ints sizes;                   // rank 1 to 8
  Ints strides;                 // in elements: row-major, or column-major for fortran_order
  std::vector<std::byte> data;  // native byte order
  bool void_type = false;       // bf16 was spelled as 2-byte void (V2) rather than u2
};

// as_bf16: V2 and u2 are bf16. Without it V2 is refused and u2 is u16. Any other type is what the file says, either
// way. Pipes and /dev/stdin are read too.
NpyArray read_npy(const std::string& path, bool as_bf16);

// Outputs that appear together or not at all. add writes a temporary file beside the path; commit renames all of them,
// undoing the earlier renames if a later one fails; what was not committed is removed by the destructor. A path that is
// no regular file (/dev/stdout, a pipe) is written directly, by commit, before the renames.
class NpyWriter {
 public:
  NpyWriter();
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  // data: packed, row-major, native byte order; not referred to after the call.
  void add(const std::string& path, std::int32_t dtype, const Ints& sizes, std::span<const std::byte> data,
           bool bf16_as_void);
  // Whether it succeeds or throws, the writer is empty afterwards.
  void commit();

 private:
  struct Output;
  std::vector<Output> outputs_;
};

// One output alone.
void write_npy(const std::string& path, std::int32_t dtype, const Ints& sizes, std::span<const std::byte> data,
               bool bf16_as_void);

}  // namespace tools
