// SPDX-License-Identifier: Apache-2.0
// DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC's document has a formula and no numbers:
//
//     OutputGradientTensor = (X > 0 ? dY : 0)
//
// so the numbers are ours.
#include "documents.h"

const std::vector<float> kX{-2, -1, 0, 1, 2};
const std::vector<float> kDy{10, 20, 30, 40, 50};
const std::vector<float> kOutputGradient{0, 0, 0, 40, 50};

bool through_directml() {
  const DmlTensor tensor({1, 5});
  DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC gradient = {};
  gradient.InputTensor = &tensor.desc;
  gradient.InputGradientTensor = &tensor.desc;
  gradient.OutputGradientTensor = &tensor.desc;
  std::vector<float> dx(5);
  run_dml(DML_OPERATOR_ACTIVATION_RELU_GRAD, &gradient, {kX.data(), kDy.data()}, {dx.data()});
  return show("ReluGrad, OutputGradientTensor", dx, 5, kOutputGradient);
}

bool through_cpp() {
  std::vector<float> dx(5);
  backpass::relu_grad(backpass::Tensor(kX, {1, 5}), backpass::Tensor(kDy, {1, 5}), backpass::Tensor(dx, {1, 5}));
  return show("the same through C++", dx, 5, kOutputGradient);
}

int main() {
  const bool directml = through_directml();
  const bool cpp = through_cpp();
  return directml && cpp ? 0 : 1;
}
