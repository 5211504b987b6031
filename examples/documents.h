// SPDX-License-Identifier: Apache-2.0
// What the four document programs share: a DirectML tensor in a line, running an operator, and the comparison with the
// document.
#pragma once

#include <backpass/directml.h>
#include <backpass/backpass.hpp>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

// A packed FLOAT32 buffer tensor; the descs point at each other, so it stays where it is.
struct DmlTensor {
  std::vector<UINT> sizes;
  DML_BUFFER_TENSOR_DESC buffer{};
  DML_TENSOR_DESC desc{};

  explicit DmlTensor(std::vector<UINT> given, DML_TENSOR_DATA_TYPE type = DML_TENSOR_DATA_TYPE_FLOAT32)
      : sizes(std::move(given)) {
    UINT64 elements = 1;
    for (const UINT size : sizes) elements *= size;
    buffer.DataType = type;
    buffer.DimensionCount = static_cast<UINT>(sizes.size());
    buffer.Sizes = sizes.data();
    buffer.TotalTensorSizeInBytes = elements * sizeof(float);
    desc = {DML_TENSOR_TYPE_BUFFER, &buffer};
  }
  DmlTensor(const DmlTensor&) = delete;
  DmlTensor& operator=(const DmlTensor&) = delete;
};

// Creates and runs an operator given as a DirectML desc.
inline void run_dml(DML_OPERATOR_TYPE type, const void* operator_desc, std::initializer_list<const void*> inputs,
                    std::initializer_list<void*> outputs) {
  const DML_OPERATOR_DESC desc = {type, operator_desc};
  bp_operator* created = nullptr;
  if (bp_dml_create_operator(&desc, DML_FEATURE_LEVEL_6_4, {BP_DEVICE_CPU, 0}, &created) != S_OK) {
    std::fprintf(stderr, "%s\n", bp_last_error());
    std::exit(1);
  }
  const backpass::Operator op = backpass::Operator::adopt(created);  // which destroys it
  std::vector<std::max_align_t> workspace(op.workspace_size() / sizeof(std::max_align_t) + 1);
  op.run(inputs, outputs, workspace.data());
}

// Prints a matrix as the documents do; false when it is not what the document says.
inline bool show(const char* title, const std::vector<float>& found, std::size_t columns,
                 const std::vector<float>& documented) {
  std::printf("%s\n", title);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i % columns == 0) std::printf(i == 0 ? "[[" : " [");
    std::printf("%g", static_cast<double>(found[i]));
    const bool row_ends = (i + 1) % columns == 0;
    std::printf("%s", !row_ends ? ", " : (i + 1 == found.size() ? "]]\n" : "],\n"));
  }
  if (found != documented) std::printf("NOT AS DOCUMENTED\n");
  return found == documented;
}
