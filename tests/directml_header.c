/* SPDX-License-Identifier: Apache-2.0
 * Code as it is written for DirectML: every desc filled in by the names of its fields. It compiles as C11 and as C++11,
 * and every operator is supported. */
#include <backpass/directml.h>
#include <stdio.h>

static int failures = 0;

static const UINT whole[] = {1, 1, 3, 3}, part[] = {1, 1, 2, 2}, ones[] = {1, 1, 1, 1}, zeros[] = {0, 0, 0, 0},
                  two[] = {2, 2};
static const INT signed_ones[] = {1, 1, 1, 1};
static const FLOAT scales[] = {1, 1, 0.5f, 0.5f}, halves[] = {0.5f, 0.5f, 0.5f, 0.5f},
                   minus_halves[] = {-0.5f, -0.5f, -0.5f, -0.5f};

static DML_BUFFER_TENSOR_DESC buffer(DML_TENSOR_DATA_TYPE type, const UINT* sizes) {
  DML_BUFFER_TENSOR_DESC desc;
  desc.DataType = type;
  desc.Flags = DML_TENSOR_FLAG_NONE;
  desc.DimensionCount = 4;
  desc.Sizes = sizes;
  desc.Strides = NULL;
  desc.TotalTensorSizeInBytes = (UINT64)sizes[0] * sizes[1] * sizes[2] * sizes[3] * 4;
  desc.GuaranteedBaseOffsetAlignment = 16;
  return desc;
}

static DML_TENSOR_DESC tensor(const DML_BUFFER_TENSOR_DESC* of) {
  DML_TENSOR_DESC desc;
  desc.Type = DML_TENSOR_TYPE_BUFFER;
  desc.Desc = of;
  return desc;
}

static void expect_supported(const char* name, DML_OPERATOR_TYPE type, const void* desc) {
  const bp_device cpu = {BP_DEVICE_CPU, 0};
  bp_operator* op = NULL;
  DML_OPERATOR_DESC described;
  described.Type = type;
  described.Desc = desc;
  if (bp_dml_check_support(&described, DML_FEATURE_LEVEL_6_4) != S_OK ||
      bp_dml_create_operator(&described, DML_FEATURE_LEVEL_6_4, cpu, &op) != S_OK) {
    fprintf(stderr, "not so: %s is supported (%s)\n", name, bp_last_error());
    ++failures;
  }
  bp_operator_destroy(op);
}

static void relu(const DML_TENSOR_DESC* x, const DML_TENSOR_DESC* same) {
  DML_ACTIVATION_RELU_OPERATOR_DESC forward;
  forward.InputTensor = x;
  forward.OutputTensor = same;
  expect_supported("ACTIVATION_RELU", DML_OPERATOR_ACTIVATION_RELU, &forward);

  DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC grad;
  grad.InputTensor = x;
  grad.InputGradientTensor = same;
  grad.OutputGradientTensor = same;
  expect_supported("ACTIVATION_RELU_GRAD", DML_OPERATOR_ACTIVATION_RELU_GRAD, &grad);
}

static void max_pooling(const DML_TENSOR_DESC* x, const DML_TENSOR_DESC* y, const DML_TENSOR_DESC* indices) {
  DML_MAX_POOLING_OPERATOR_DESC forward;
  forward.InputTensor = x;
  forward.OutputTensor = y;
  forward.DimensionCount = 2;
  forward.Strides = ones;
  forward.WindowSize = two;
  forward.StartPadding = zeros;
  forward.EndPadding = zeros;
  expect_supported("MAX_POOLING", DML_OPERATOR_MAX_POOLING, &forward);

  DML_MAX_POOLING1_OPERATOR_DESC forward1;
  forward1.InputTensor = x;
  forward1.OutputTensor = y;
  forward1.OutputIndicesTensor = indices;
  forward1.DimensionCount = 2;
  forward1.Strides = ones;
  forward1.WindowSize = two;
  forward1.StartPadding = zeros;
  forward1.EndPadding = zeros;
  expect_supported("MAX_POOLING1", DML_OPERATOR_MAX_POOLING1, &forward1);

  DML_MAX_POOLING2_OPERATOR_DESC forward2;
  forward2.InputTensor = x;
  forward2.OutputTensor = y;
  forward2.OutputIndicesTensor = NULL;
  forward2.DimensionCount = 2;
  forward2.Strides = ones;
  forward2.WindowSize = two;
  forward2.StartPadding = zeros;
  forward2.EndPadding = zeros;
  forward2.Dilations = ones;
  expect_supported("MAX_POOLING2", DML_OPERATOR_MAX_POOLING2, &forward2);

  DML_MAX_POOLING_GRAD_OPERATOR_DESC grad;
  grad.InputTensor = x;
  grad.InputGradientTensor = y;
  grad.OutputGradientTensor = x;
  grad.DimensionCount = 2;
  grad.Strides = ones;
  grad.WindowSize = two;
  grad.StartPadding = zeros;
  grad.EndPadding = zeros;
  grad.Dilations = ones;
  expect_supported("MAX_POOLING_GRAD", DML_OPERATOR_MAX_POOLING_GRAD, &grad);
}

static void resample(const DML_TENSOR_DESC* x, const DML_TENSOR_DESC* y) {
  DML_RESAMPLE_OPERATOR_DESC forward;
  forward.InputTensor = x;
  forward.OutputTensor = y;
  forward.InterpolationMode = DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR;
  forward.ScaleCount = 4;
  forward.Scales = scales;
  expect_supported("RESAMPLE", DML_OPERATOR_RESAMPLE, &forward);

  DML_RESAMPLE1_OPERATOR_DESC forward1;
  forward1.InputTensor = x;
  forward1.OutputTensor = y;
  forward1.InterpolationMode = DML_INTERPOLATION_MODE_LINEAR;
  forward1.DimensionCount = 4;
  forward1.Scales = scales;
  forward1.InputPixelOffsets = halves;
  forward1.OutputPixelOffsets = minus_halves;
  expect_supported("RESAMPLE1", DML_OPERATOR_RESAMPLE1, &forward1);

  DML_RESAMPLE2_OPERATOR_DESC forward2;
  forward2.InputTensor = x;
  forward2.OutputTensor = y;
  forward2.InterpolationMode = DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR;
  forward2.RoundingDirection = DML_AXIS_DIRECTION_INCREASING;
  forward2.DimensionCount = 4;
  forward2.Scales = scales;
  forward2.InputPixelOffsets = halves;
  forward2.OutputPixelOffsets = minus_halves;
  expect_supported("RESAMPLE2", DML_OPERATOR_RESAMPLE2, &forward2);
}

static void resample_grad(const DML_TENSOR_DESC* dy, const DML_TENSOR_DESC* dx) {
  DML_RESAMPLE_GRAD_OPERATOR_DESC grad;
  grad.InputGradientTensor = dy;
  grad.OutputGradientTensor = dx;
  grad.InterpolationMode = DML_INTERPOLATION_MODE_LINEAR;
  grad.DimensionCount = 4;
  grad.Scales = scales;
  grad.InputPixelOffsets = halves;
  grad.OutputPixelOffsets = minus_halves;
  expect_supported("RESAMPLE_GRAD", DML_OPERATOR_RESAMPLE_GRAD, &grad);

  DML_RESAMPLE_GRAD1_OPERATOR_DESC grad1;
  grad1.InputGradientTensor = dy;
  grad1.OutputGradientTensor = dx;
  grad1.InterpolationMode = DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR;
  grad1.RoundingDirection = DML_AXIS_DIRECTION_DECREASING;
  grad1.DimensionCount = 4;
  grad1.Scales = scales;
  grad1.InputPixelOffsets = halves;
  grad1.OutputPixelOffsets = minus_halves;
  expect_supported("RESAMPLE_GRAD1", DML_OPERATOR_RESAMPLE_GRAD1, &grad1);
}

static void slice(const DML_TENSOR_DESC* x, const DML_TENSOR_DESC* y) {
  DML_SLICE_OPERATOR_DESC forward;
  forward.InputTensor = x;
  forward.OutputTensor = y;
  forward.DimensionCount = 4;
  forward.Offsets = zeros;
  forward.Sizes = part;
  forward.Strides = ones;
  expect_supported("SLICE", DML_OPERATOR_SLICE, &forward);

  DML_SLICE1_OPERATOR_DESC forward1;
  forward1.InputTensor = x;
  forward1.OutputTensor = y;
  forward1.DimensionCount = 4;
  forward1.InputWindowOffsets = zeros;
  forward1.InputWindowSizes = part;
  forward1.InputWindowStrides = signed_ones;
  expect_supported("SLICE1", DML_OPERATOR_SLICE1, &forward1);

  DML_SLICE_GRAD_OPERATOR_DESC grad;
  grad.InputGradientTensor = y;
  grad.OutputGradientTensor = x;
  grad.DimensionCount = 4;
  grad.InputWindowOffsets = zeros;
  grad.InputWindowSizes = part;
  grad.InputWindowStrides = signed_ones;
  expect_supported("SLICE_GRAD", DML_OPERATOR_SLICE_GRAD, &grad);
}

int main(void) {
  const DML_BUFFER_TENSOR_DESC whole_buffer = buffer(DML_TENSOR_DATA_TYPE_FLOAT32, whole);
  const DML_BUFFER_TENSOR_DESC part_buffer = buffer(DML_TENSOR_DATA_TYPE_FLOAT32, part);
  const DML_BUFFER_TENSOR_DESC indices_buffer = buffer(DML_TENSOR_DATA_TYPE_UINT32, part);
  const DML_TENSOR_DESC x = tensor(&whole_buffer), y = tensor(&part_buffer), indices = tensor(&indices_buffer);
  relu(&x, &x);
  max_pooling(&x, &y, &indices);
  resample(&x, &y);
  resample_grad(&y, &x);
  slice(&x, &y);
  printf("directml_header: %s\n", failures == 0 ? "all fourteen" : "FAILED");
  return failures == 0 ? 0 : 1;
}
