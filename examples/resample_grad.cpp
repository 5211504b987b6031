// SPDX-License-Identifier: Apache-2.0
// The example of DML_RESAMPLE_GRAD1_OPERATOR_DESC's document: nearest neighbor, 1.5x in the width, 0.5x in the height.
// The document names no offsets; pixel centers with DECREASING rounding give its numbers.
#include "documents.h"

const std::vector<float> kInput{1, 2, 3, 4};
const std::vector<float> kInputGradient{4, 5, 6};
const std::vector<float> kOutputGradient{9, 6, 0, 0};

bool through_directml() {
  const DmlTensor input({2, 2}), output({1, 3});
  const FLOAT scales[] = {0.5f, 1.5f}, input_offsets[] = {0.5f, 0.5f}, output_offsets[] = {-0.5f, -0.5f};

  DML_RESAMPLE2_OPERATOR_DESC forward = {};
  forward.InputTensor = &input.desc;
  forward.OutputTensor = &output.desc;
  forward.InterpolationMode = DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR;
  forward.RoundingDirection = DML_AXIS_DIRECTION_DECREASING;
  forward.DimensionCount = 2;
  forward.Scales = scales;
  forward.InputPixelOffsets = input_offsets;
  forward.OutputPixelOffsets = output_offsets;
  std::vector<float> y(3);
  run_dml(DML_OPERATOR_RESAMPLE2, &forward, {kInput.data()}, {y.data()});

  DML_RESAMPLE_GRAD1_OPERATOR_DESC gradient = {};
  gradient.InputGradientTensor = &output.desc;
  gradient.OutputGradientTensor = &input.desc;
  gradient.InterpolationMode = DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR;
  gradient.RoundingDirection = DML_AXIS_DIRECTION_DECREASING;
  gradient.DimensionCount = 2;
  gradient.Scales = scales;
  gradient.InputPixelOffsets = input_offsets;
  gradient.OutputPixelOffsets = output_offsets;
  std::vector<float> dx(4);
  run_dml(DML_OPERATOR_RESAMPLE_GRAD1, &gradient, {kInputGradient.data()}, {dx.data()});

  const bool values = show("Resample, OutputTensor", y, 3, {1, 1, 2});
  const bool gradients = show("ResampleGrad, OutputGradientTensor", dx, 2, kOutputGradient);
  return values && gradients;
}

bool through_cpp() {
  std::vector<float> dx(4);
  backpass::resample_grad(
      backpass::Tensor(kInputGradient, {1, 3}), backpass::Tensor(dx, {2, 2}),
      {.mode = backpass::Mode::nearest, .rounding = backpass::Rounding::decreasing, .scales = {0.5, 1.5}});
  return show("the same through C++", dx, 2, kOutputGradient);
}

int main() {
  const bool directml = through_directml();
  const bool cpp = through_cpp();
  return directml && cpp ? 0 : 1;
}
