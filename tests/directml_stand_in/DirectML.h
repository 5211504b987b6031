// SPDX-License-Identifier: Apache-2.0
// Stands in for the real DirectML.h: its marks, a few of its types, and a field that ours does not have. Whatever
// backpass/directml.h declared again would not compile.
#ifndef DIRECTML_H
#define DIRECTML_H

#define DML_DECLARE_INTERFACE(iid)
#define S_OK ((HRESULT)0L)
#define E_INVALIDARG ((HRESULT)0x80070057L)

typedef int HRESULT;
typedef unsigned int UINT;
typedef int INT;
typedef float FLOAT;
typedef int BOOL;
typedef unsigned long long UINT64;

static const UINT DML_TENSOR_DIMENSION_COUNT_MAX1 = 8;

enum DML_FEATURE_LEVEL { DML_FEATURE_LEVEL_1_0 = 0x1000, DML_FEATURE_LEVEL_2_0 = 0x2000 };
enum DML_OPERATOR_TYPE { DML_OPERATOR_INVALID, DML_OPERATOR_ELEMENT_WISE_IDENTITY };
enum DML_TENSOR_DATA_TYPE { DML_TENSOR_DATA_TYPE_UNKNOWN, DML_TENSOR_DATA_TYPE_FLOAT32 };
enum DML_TENSOR_FLAGS { DML_TENSOR_FLAG_NONE, DML_TENSOR_FLAG_OWNED_BY_DML };

struct DML_OPERATOR_DESC {
  DML_OPERATOR_TYPE Type;
  const void* Desc;
  int OnlyInTheStandIn;
};

#endif
