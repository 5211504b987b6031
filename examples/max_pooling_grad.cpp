// SPDX-License-Identifier: Apache-2.0
// The example of DML_MAX_POOLING_GRAD_OPERATOR_DESC's document: a 2x2 window, stride 1, no padding, no dilations.
#include "documents.h"

const std::vector<float> kInput{1, 2, 3, 2, 4, 2, 5, 6, 7};
const std::vector<float> kInputGradient{1, 2, 4, 5};
const std::vector<float> kOutputGradient{0, 0, 0, 0, 3, 0, 0, 4, 5};

bool through_directml() {
  const DmlTensor input({1, 1, 3, 3}), output({1, 1, 2, 2}), indices({1, 1, 2, 2}, DML_TENSOR_DATA_TYPE_UINT32);
  const UINT strides[] = {1, 1}, window[] = {2, 2}, padding[] = {0, 0}, dilations[] = {1, 1};

  DML_MAX_POOLING2_OPERATOR_DESC forward = {};
  forward.InputTensor = &input.desc;
  forward.OutputTensor = &output.desc;
  forward.OutputIndicesTensor = &indices.desc;
  forward.DimensionCount = 2;
  forward.Strides = strides;
  forward.WindowSize = window;
  forward.StartPadding = padding;
  forward.EndPadding = padding;
  forward.Dilations = dilations;
  std::vector<float> y(4);
  std::vector<UINT> winners(4);
  run_dml(DML_OPERATOR_MAX_POOLING2, &forward, {kInput.data()}, {y.data(), winners.data()});

  DML_MAX_POOLING_GRAD_OPERATOR_DESC gradient = {};
  gradient.InputTensor = &input.desc;
  gradient.InputGradientTensor = &output.desc;
  gradient.OutputGradientTensor = &input.desc;
  gradient.DimensionCount = 2;
  gradient.Strides = strides;
  gradient.WindowSize = window;
  gradient.StartPadding = padding;
  gradient.EndPadding = padding;
  gradient.Dilations = dilations;
  std::vector<float> dx(9);
  run_dml(DML_OPERATOR_MAX_POOLING_GRAD, &gradient, {kInput.data(), kInputGradient.data()}, {dx.data()});

  const bool values = show("MaxPool, OutputTensor", y, 2, {4, 4, 6, 7});
  const bool index = show("MaxPool, IndicesTensor", {winners.begin(), winners.end()}, 2, {4, 4, 7, 8});
  const bool gradients = show("MaxPoolGrad, OutputGradientTensor", dx, 3, kOutputGradient);
  return values && index && gradients;
}

bool through_cpp() {
  std::vector<float> dx(9);
  backpass::max_pool_grad(backpass::Tensor(kInput, {1, 1, 3, 3}), backpass::Tensor(kInputGradient, {1, 1, 2, 2}),
                          backpass::Tensor(dx, {1, 1, 3, 3}), {.window = {2, 2}, .strides = {1, 1}});
  return show("the same through C++", dx, 3, kOutputGradient);
}

int main() {
  const bool directml = through_directml();
  const bool cpp = through_cpp();
  return directml && cpp ? 0 : 1;
}
