/* SPDX-License-Identifier: Apache-2.0
 * The library as a C11 program meets it: describe, create, query, run, check, destroy, and an error. */
#include <backpass/backpass.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void expect(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "not so: %s (last error: %s)\n", what, bp_last_error());
    ++failures;
  }
}

static void max_pool_grad(void) {
  const int64_t x_sizes[] = {1, 1, 3, 3}, dy_sizes[] = {1, 1, 2, 2}, two[] = {2, 2}, one[] = {1, 1};
  const bp_tensor_desc x = {.struct_size = sizeof x, .dtype = BP_F32, .rank = 4, .sizes = x_sizes};
  const bp_tensor_desc dy = {.struct_size = sizeof dy, .dtype = BP_F32, .rank = 4, .sizes = dy_sizes};
  const bp_window window = {.struct_size = sizeof window, .spatial_rank = 2, .size = two, .strides = one};
  const bp_max_pool_grad_desc desc = {.struct_size = sizeof desc, .x = &x, .dy = &dy, .dx = &x, .window = &window};
  const bp_device cpu = {BP_DEVICE_CPU, 0};
  bp_operator* op = NULL;
  expect(bp_operator_create(BP_MAX_POOL_GRAD, &desc, cpu, NULL, &op) == BP_OK, "max_pool_grad is created");

  size_t workspace_bytes = 0;
  expect(bp_operator_workspace_size(op, &workspace_bytes) == BP_OK, "the workspace size is told");
  void* workspace = malloc(workspace_bytes);
  const float x_data[] = {1, 2, 3, 2, 4, 2, 5, 6, 7}, dy_data[] = {1, 2, 4, 5},
              expected[] = {0, 0, 0, 0, 3, 0, 0, 4, 5};
  float dx_data[9];
  const void* inputs[] = {x_data, dy_data};
  void* outputs[] = {dx_data};
  expect(bp_operator_run(op, inputs, 2, outputs, 1, workspace, NULL) == BP_OK, "it runs");
  expect(memcmp(dx_data, expected, sizeof expected) == 0, "the document's example comes out");
  expect(bp_operator_check(op, workspace, NULL) == BP_OK, "nothing is to report");
  free(workspace);
  bp_operator_destroy(op);
}

static void refusal(void) {
  const int64_t sizes[] = {4}, other[] = {5};
  const bp_tensor_desc x = {.struct_size = sizeof x, .dtype = BP_F32, .rank = 1, .sizes = sizes};
  const bp_tensor_desc y = {.struct_size = sizeof y, .dtype = BP_F32, .rank = 1, .sizes = other};
  const bp_relu_desc desc = {.struct_size = sizeof desc, .x = &x, .y = &y};
  const bp_device cpu = {BP_DEVICE_CPU, 0};
  bp_operator* op = NULL;
  expect(bp_operator_create(BP_RELU, &desc, cpu, NULL, &op) == BP_INVALID_ARGUMENT, "sizes that differ are refused");
  expect(op == NULL, "no operator comes of it");
  expect(strcmp(bp_last_error(), "relu: y: axis 0: size is 5, expected 4 (that of x)") == 0, "the sentence says why");
  bp_operator_destroy(op);
}

int main(void) {
  max_pool_grad();
  refusal();
  printf("c_program: %s\n", failures == 0 ? "all as promised" : "FAILED");
  return failures == 0 ? 0 : 1;
}
