/* SPDX-License-Identifier: Apache-2.0
 * A C program that uses an installed backpass: the 3x3 example of the DirectML document. */
#include <backpass/backpass.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  const int64_t x_sizes[] = {1, 1, 3, 3}, dy_sizes[] = {1, 1, 2, 2}, two[] = {2, 2}, one[] = {1, 1};
  const bp_tensor_desc x = {.struct_size = sizeof x, .dtype = BP_F32, .rank = 4, .sizes = x_sizes};
  const bp_tensor_desc dy = {.struct_size = sizeof dy, .dtype = BP_F32, .rank = 4, .sizes = dy_sizes};
  const bp_window window = {.struct_size = sizeof window, .spatial_rank = 2, .size = two, .strides = one};
  const bp_max_pool_grad_desc desc = {.struct_size = sizeof desc, .x = &x, .dy = &dy, .dx = &x, .window = &window};
  const float x_data[] = {1, 2, 3, 2, 4, 2, 5, 6, 7}, dy_data[] = {1, 2, 4, 5};
  const float expected[] = {0, 0, 0, 0, 3, 0, 0, 4, 5};
  float dx_data[9] = {0};
  const void* inputs[] = {x_data, dy_data};
  void* outputs[] = {dx_data};
  const bp_device cpu = {BP_DEVICE_CPU, 0};
  bp_operator* op = NULL;
  size_t bytes = 0;
  if (bp_operator_create(BP_MAX_POOL_GRAD, &desc, cpu, NULL, &op) != BP_OK ||
      bp_operator_workspace_size(op, &bytes) != BP_OK) {
    fprintf(stderr, "%s\n", bp_last_error());
    return 1;
  }
  void* workspace = malloc(bytes);
  const bp_status status = bp_operator_run(op, inputs, 2, outputs, 1, workspace, NULL);
  free(workspace);
  bp_operator_destroy(op);
  const int right = status == BP_OK && memcmp(dx_data, expected, sizeof expected) == 0;
  printf("max_pool_grad: %s\n", right ? "as documented" : "WRONG");
  return right ? 0 : 1;
}
