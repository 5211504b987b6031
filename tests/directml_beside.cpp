// SPDX-License-Identifier: Apache-2.0
// Behind the real DirectML.h (here its stand-in) ours declares nothing but the entry points, over the real types.
#include "directml_stand_in/DirectML.h"

#include <backpass/directml.h>

int32_t answer(DML_FEATURE_LEVEL level) {
  const DML_OPERATOR_DESC desc = {DML_OPERATOR_ELEMENT_WISE_IDENTITY, nullptr, 7};
  bp_operator* op = nullptr;
  const bp_device cpu = {BP_DEVICE_CPU, 0};
  const int32_t created = bp_dml_create_operator(&desc, level, cpu, &op);
  const int32_t swapped = bp_dml_create_operator_ex(&desc, level, cpu, BP_DML_OFFSETS_SWAPPED, nullptr, &op);
  return created == S_OK && swapped == DXGI_ERROR_UNSUPPORTED ? bp_dml_check_support(&desc, level) : E_OUTOFMEMORY;
}
