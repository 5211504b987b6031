/* SPDX-License-Identifier: Apache-2.0
 * The examples of the four DirectML documents, computed live through the C ABI, shown as the documents show them, and
 * checked. */
#include <backpass/backpass.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bp_device kCpu = {BP_DEVICE_CPU, 0};
static bool all_as_documented = true;

/* Creates, runs and destroys; ends the program on any refusal. */
static void run(bp_operator_kind kind, const void* desc, const void* const* inputs, size_t input_count,
                void* const* outputs, size_t output_count) {
  bp_operator* op = NULL;
  size_t workspace_bytes = 0;
  if (bp_operator_create(kind, desc, kCpu, NULL, &op) != BP_OK ||
      bp_operator_workspace_size(op, &workspace_bytes) != BP_OK) {
    fprintf(stderr, "%s\n", bp_last_error());
    exit(1);
  }
  void* workspace = malloc(workspace_bytes);
  if (bp_operator_run(op, inputs, input_count, outputs, output_count, workspace, NULL) != BP_OK) {
    fprintf(stderr, "%s\n", bp_last_error());
    exit(1);
  }
  free(workspace);
  bp_operator_destroy(op);
}

static bp_tensor_desc tensor(bp_dtype dtype, int32_t rank, const int64_t* sizes) {
  return (bp_tensor_desc){.struct_size = sizeof(bp_tensor_desc), .dtype = dtype, .rank = rank, .sizes = sizes};
}

static void report(const char* what, bool same, const char* as) {
  printf("%s %s%s\n\n", what, same ? "" : "NOT ", as);
  all_as_documented = all_as_documented && same;
}

static void check(const char* what, const void* found, const void* documented, size_t bytes) {
  report(what, memcmp(found, documented, bytes) == 0, "as documented");
}

/* One row of a matrix as the documents print it: "[[1, 2, 3]," ... */
static int print_row(const float* data, int rows, int columns, int row, bool letters) {
  int width = 0;
  if (row >= rows) return width;
  width += printf(row == 0 ? "[[" : " [");
  for (int c = 0; c < columns; ++c) {
    const float v = data[row * columns + c];
    const char* separator = c + 1 < columns ? ", " : "";
    width += letters && v != 0 ? printf("%c%s", (char)v, separator) : printf("%g%s", (double)v, separator);
  }
  width += printf(row + 1 < rows ? "]," : "]]");
  return width;
}

typedef struct {
  const char* title;
  const float* data;
  int rows, columns, width;
  const char* arrow; /* before this matrix, in the middle row */
} matrix;

static void print_matrices(const matrix* matrices, int count, bool letters) {
  int rows = 0;
  for (int m = 0; m < count; ++m) {
    if (matrices[m].arrow) printf("%-*s", (int)strlen(matrices[m].arrow) + 2, "");
    printf("%-*s", matrices[m].width, matrices[m].title);
    if (matrices[m].rows > rows) rows = matrices[m].rows;
  }
  printf("\n");
  for (int row = 0; row < rows; ++row) {
    for (int m = 0; m < count; ++m) {
      if (matrices[m].arrow) printf("%-*s", (int)strlen(matrices[m].arrow) + 2, row == 1 ? matrices[m].arrow : "");
      const int width = print_row(matrices[m].data, matrices[m].rows, matrices[m].columns, row, letters);
      if (m + 1 < count) printf("%*s", matrices[m].width - width, "");
    }
    printf("\n");
  }
}

static void max_pooling_grad(void) {
  puts("DML_MAX_POOLING_GRAD_OPERATOR_DESC: a 2x2 window, stride 1\n");
  const int64_t x_sizes[] = {1, 1, 3, 3}, y_sizes[] = {1, 1, 2, 2}, two[] = {2, 2}, one[] = {1, 1};
  const bp_tensor_desc x = tensor(BP_F32, 4, x_sizes), y = tensor(BP_F32, 4, y_sizes), w = tensor(BP_U32, 4, y_sizes);
  const bp_window window = {.struct_size = sizeof window, .spatial_rank = 2, .size = two, .strides = one};
  const float x_data[] = {1, 2, 3, 2, 4, 2, 5, 6, 7}, dy_data[] = {1, 2, 4, 5};

  const bp_max_pool_desc forward = {.struct_size = sizeof forward,
                                    .x = &x,
                                    .y = &y,
                                    .winners = &w,
                                    .window = &window,
                                    .winners_kind = BP_WINNERS_FLAT};
  float y_data[4], indices[4];
  uint32_t winners[4];
  run(BP_MAX_POOL, &forward, (const void*[]){x_data}, 1, (void*[]){y_data, winners}, 2);
  for (int i = 0; i < 4; ++i) indices[i] = (float)winners[i];
  print_matrices((const matrix[]){{"InputTensor", x_data, 3, 3, 12, NULL},
                                  {"OutputTensor", y_data, 2, 2, 13, "MaxPool -->"},
                                  {"IndicesTensor", indices, 2, 2, 13, ""}},
                 3, false);
  check("MaxPool values:", y_data, (const float[]){4, 4, 6, 7}, sizeof y_data);
  check("MaxPool indices:", winners, (const uint32_t[]){4, 4, 7, 8}, sizeof winners);

  const bp_max_pool_grad_desc grad = {.struct_size = sizeof grad, .x = &x, .dy = &y, .dx = &x, .window = &window};
  float dx_data[9];
  run(BP_MAX_POOL_GRAD, &grad, (const void*[]){x_data, dy_data}, 2, (void*[]){dx_data}, 1);
  print_matrices((const matrix[]){{"InputTensor", x_data, 3, 3, 14, NULL},
                                  {"InputGradientTensor", dy_data, 2, 2, 19, ""},
                                  {"OutputGradientTensor", dx_data, 3, 3, 20, "MaxPoolGrad -->"}},
                 3, false);
  check("MaxPoolGrad:", dx_data, (const float[]){0, 0, 0, 0, 3, 0, 0, 4, 5}, sizeof dx_data);
}

static void resample_grad(void) {
  puts("DML_RESAMPLE_GRAD1_OPERATOR_DESC: nearest neighbor, 1.5x in the width, 0.5x in the height\n");
  const int64_t x_sizes[] = {2, 2}, y_sizes[] = {1, 3};
  const bp_tensor_desc x = tensor(BP_F32, 2, x_sizes), y = tensor(BP_F32, 2, y_sizes);
  const bp_resample_map map = {.struct_size = sizeof map,
                               .mode = BP_NEAREST,
                               .rounding = BP_ROUND_DECREASING,
                               .convention = BP_HALF_PIXEL,
                               .rank = 2,
                               .scales = (const double[]){0.5, 1.5}};
  const float x_data[] = {1, 2, 3, 4}, dy_data[] = {4, 5, 6};
  float y_data[3], dx_data[4];
  const bp_resample_desc forward = {.struct_size = sizeof forward, .x = &x, .y = &y, .map = &map};
  run(BP_RESAMPLE, &forward, (const void*[]){x_data}, 1, (void*[]){y_data}, 1);
  print_matrices(
      (const matrix[]){{"InputTensor", x_data, 2, 2, 12, NULL}, {"OutputTensor", y_data, 1, 3, 12, "Resample -->"}}, 2,
      false);
  check("Resample:", y_data, (const float[]){1, 1, 2}, sizeof y_data);

  const bp_resample_grad_desc grad = {.struct_size = sizeof grad, .dy = &y, .dx = &x, .map = &map};
  run(BP_RESAMPLE_GRAD, &grad, (const void*[]){dy_data}, 1, (void*[]){dx_data}, 1);
  print_matrices((const matrix[]){{"InputGradientTensor", dy_data, 1, 3, 20, NULL},
                                  {"OutputGradientTensor", dx_data, 2, 2, 20, "ResampleGrad -->"}},
                 2, false);
  check("ResampleGrad:", dx_data, (const float[]){9, 6, 0, 0}, sizeof dx_data);
}

static void slice_grad(void) {
  puts("DML_SLICE_GRAD_OPERATOR_DESC: every second row and column\n");
  const int64_t x_sizes[] = {4, 4}, y_sizes[] = {2, 2}, offsets[] = {0, 0}, strides[] = {2, 2};
  const bp_tensor_desc x = tensor(BP_F32, 2, x_sizes), y = tensor(BP_F32, 2, y_sizes);
  const bp_slice_window window = {
      .struct_size = sizeof window, .rank = 2, .offsets = offsets, .sizes = x_sizes, .strides = strides};
  float x_data[16], y_data[4], dx_data[16];
  for (int i = 0; i < 16; ++i) x_data[i] = (float)('a' + i);
  const bp_slice_desc forward = {.struct_size = sizeof forward, .x = &x, .y = &y, .window = &window};
  run(BP_SLICE, &forward, (const void*[]){x_data}, 1, (void*[]){y_data}, 1);
  print_matrices(
      (const matrix[]){{"InputTensor", x_data, 4, 4, 15, NULL}, {"OutputTensor", y_data, 2, 2, 12, "Slice -->"}}, 2,
      true);
  check("Slice:", y_data, (const float[]){'a', 'c', 'i', 'k'}, sizeof y_data);

  const bp_slice_grad_desc grad = {.struct_size = sizeof grad, .dy = &y, .dx = &x, .window = &window};
  run(BP_SLICE_GRAD, &grad, (const void*[]){y_data}, 1, (void*[]){dx_data}, 1);
  print_matrices((const matrix[]){{"InputGradientTensor", y_data, 2, 2, 20, NULL},
                                  {"OutputGradientTensor", dx_data, 4, 4, 20, "SliceGrad -->"}},
                 2, true);
  check("SliceGrad:", dx_data, (const float[]){'a', 0, 'c', 0, 0, 0, 0, 0, 'i', 0, 'k', 0, 0, 0, 0, 0}, sizeof dx_data);
}

/* This document has a formula and no numbers; the numbers are ours. */
static void relu_grad(void) {
  puts("DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC: OutputGradientTensor = (X > 0 ? dY : 0)\n");
  const int64_t sizes[] = {1, 5};
  const bp_tensor_desc t = tensor(BP_F32, 2, sizes);
  const bp_relu_grad_desc grad = {.struct_size = sizeof grad, .x = &t, .dy = &t, .dx = &t};
  const float x_data[] = {-2, -1, 0, 1, 2}, dy_data[] = {10, 20, 30, 40, 50};
  float dx_data[5];
  run(BP_RELU_GRAD, &grad, (const void*[]){x_data, dy_data}, 2, (void*[]){dx_data}, 1);
  print_matrices((const matrix[]){{"X", x_data, 1, 5, 22, NULL},
                                  {"dY", dy_data, 1, 5, 26, ""},
                                  {"OutputGradientTensor", dx_data, 1, 5, 20, ""}},
                 3, false);
  const float by_the_formula[] = {0, 0, 0, 40, 50};
  report("ReluGrad (our numbers):", memcmp(dx_data, by_the_formula, sizeof dx_data) == 0, "as the formula says");
}

int main(void) {
  max_pooling_grad();
  resample_grad();
  slice_grad();
  relu_grad();
  puts(all_as_documented ? "Every example of the documents came out as documented."
                         : "Some examples did NOT come out as documented.");
  return all_as_documented ? 0 : 1;
}
