// SPDX-License-Identifier: Apache-2.0
// The example of DML_SLICE_GRAD_OPERATOR_DESC's document: every second row and column of a 4x4 tensor. The document's
// letters a to p are the numbers 1 to 16 here.
#include "documents.h"

const std::vector<float> kInput{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
const std::vector<float> kSliced{1, 3, 9, 11};
const std::vector<float> kOutputGradient{1, 0, 3, 0, 0, 0, 0, 0, 9, 0, 11, 0, 0, 0, 0, 0};

bool through_directml() {
  const DmlTensor input({4, 4}), output({2, 2});
  const UINT offsets[] = {0, 0}, sizes[] = {4, 4};
  const INT strides[] = {2, 2};

  DML_SLICE1_OPERATOR_DESC forward = {};
  forward.InputTensor = &input.desc;
  forward.OutputTensor = &output.desc;
  forward.DimensionCount = 2;
  forward.InputWindowOffsets = offsets;
  forward.InputWindowSizes = sizes;
  forward.InputWindowStrides = strides;
  std::vector<float> y(4);
  run_dml(DML_OPERATOR_SLICE1, &forward, {kInput.data()}, {y.data()});

  DML_SLICE_GRAD_OPERATOR_DESC gradient = {};
  gradient.InputGradientTensor = &output.desc;
  gradient.OutputGradientTensor = &input.desc;
  gradient.DimensionCount = 2;
  gradient.InputWindowOffsets = offsets;
  gradient.InputWindowSizes = sizes;
  gradient.InputWindowStrides = strides;
  std::vector<float> dx(16);
  run_dml(DML_OPERATOR_SLICE_GRAD, &gradient, {y.data()}, {dx.data()});

  const bool values = show("Slice, OutputTensor", y, 2, kSliced);
  const bool gradients = show("SliceGrad, OutputGradientTensor", dx, 4, kOutputGradient);
  return values && gradients;
}

bool through_cpp() {
  std::vector<float> dx(16);
  backpass::slice_grad(backpass::Tensor(kSliced, {2, 2}), backpass::Tensor(dx, {4, 4}),
                       {.offsets = {0, 0}, .sizes = {4, 4}, .strides = {2, 2}});
  return show("the same through C++", dx, 4, kOutputGradient);
}

int main() {
  const bool directml = through_directml();
  const bool cpp = through_cpp();
  return directml && cpp ? 0 : 1;
}
