/* SPDX-License-Identifier: Apache-2.0
 * backpass: DirectML's descs as a door into the library, where Windows and Direct3D 12 are absent.
 *
 * Code that fills in a DML_MAX_POOLING_GRAD_OPERATOR_DESC compiles unchanged: enums and structs have DirectML's names,
 * values, field order and layout. Only what the fourteen operators need is declared. Compiles alone as C11 and as C++.
 *
 * Where the real DirectML.h is wanted too, include it first: this header then declares nothing but its entry points.
 * It knows the real one by DML_DECLARE_INTERFACE or DIRECTML_H, which every version of it defines. DML_TARGET_VERSION
 * is no such mark, since it is the program's to set.
 */
#ifndef BACKPASS_DIRECTML_H
#define BACKPASS_DIRECTML_H

#include <assert.h> /* static_assert in C11 */
#include <backpass/backpass.h>
#include <stdint.h>

#if !defined(DML_DECLARE_INTERFACE) && !defined(DIRECTML_H)

/* ---- Windows' words ------------------------------------------------------------------------------- */

/* The very types that Windows gives them, so that its own typedefs may come before or after. */
typedef unsigned int UINT;
typedef int INT;
typedef float FLOAT;
typedef int BOOL;
typedef uint64_t UINT64;

/* ---- Enums ---------------------------------------------------------------------------------------- */

#ifdef __cplusplus
static const UINT DML_TENSOR_DIMENSION_COUNT_MAX = 5;
static const UINT DML_TENSOR_DIMENSION_COUNT_MAX1 = 8;
#else
enum { DML_TENSOR_DIMENSION_COUNT_MAX = 5, DML_TENSOR_DIMENSION_COUNT_MAX1 = 8 };
#endif

typedef enum DML_TENSOR_DATA_TYPE {
  DML_TENSOR_DATA_TYPE_UNKNOWN = 0,
  DML_TENSOR_DATA_TYPE_FLOAT32 = 1,
  DML_TENSOR_DATA_TYPE_FLOAT16 = 2,
  DML_TENSOR_DATA_TYPE_UINT32 = 3,
  DML_TENSOR_DATA_TYPE_UINT16 = 4,
  DML_TENSOR_DATA_TYPE_UINT8 = 5,
  DML_TENSOR_DATA_TYPE_INT32 = 6,
  DML_TENSOR_DATA_TYPE_INT16 = 7,
  DML_TENSOR_DATA_TYPE_INT8 = 8,
  DML_TENSOR_DATA_TYPE_FLOAT64 = 9,
  DML_TENSOR_DATA_TYPE_UINT64 = 10,
  DML_TENSOR_DATA_TYPE_INT64 = 11,
  DML_TENSOR_DATA_TYPE_UINT4 = 12,
  DML_TENSOR_DATA_TYPE_INT4 = 13
} DML_TENSOR_DATA_TYPE;

typedef enum DML_TENSOR_TYPE { DML_TENSOR_TYPE_INVALID = 0, DML_TENSOR_TYPE_BUFFER = 1 } DML_TENSOR_TYPE;

typedef enum DML_TENSOR_FLAGS
#ifdef __cplusplus
    : int /* any int is a value of it, ~DML_TENSOR_FLAG_OWNED_BY_DML too */
#endif
{ DML_TENSOR_FLAG_NONE = 0x0,
  DML_TENSOR_FLAG_OWNED_BY_DML = 0x1 } DML_TENSOR_FLAGS;

typedef enum DML_INTERPOLATION_MODE {
  DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR = 0,
  DML_INTERPOLATION_MODE_LINEAR = 1
} DML_INTERPOLATION_MODE;

typedef enum DML_AXIS_DIRECTION {
  DML_AXIS_DIRECTION_INCREASING = 0,
  DML_AXIS_DIRECTION_DECREASING = 1
} DML_AXIS_DIRECTION;

typedef enum DML_FEATURE_LEVEL {
  DML_FEATURE_LEVEL_1_0 = 0x1000,
  DML_FEATURE_LEVEL_2_0 = 0x2000,
  DML_FEATURE_LEVEL_2_1 = 0x2100,
  DML_FEATURE_LEVEL_3_0 = 0x3000,
  DML_FEATURE_LEVEL_3_1 = 0x3100,
  DML_FEATURE_LEVEL_4_0 = 0x4000,
  DML_FEATURE_LEVEL_4_1 = 0x4100,
  DML_FEATURE_LEVEL_5_0 = 0x5000,
  DML_FEATURE_LEVEL_5_1 = 0x5100,
  DML_FEATURE_LEVEL_5_2 = 0x5200,
  DML_FEATURE_LEVEL_6_0 = 0x6000,
  DML_FEATURE_LEVEL_6_1 = 0x6100,
  DML_FEATURE_LEVEL_6_2 = 0x6200,
  DML_FEATURE_LEVEL_6_3 = 0x6300,
  DML_FEATURE_LEVEL_6_4 = 0x6400
} DML_FEATURE_LEVEL;

/* The fourteen, and their nearest relatives, which are known and refused. */
typedef enum DML_OPERATOR_TYPE {
  DML_OPERATOR_INVALID = 0,
  DML_OPERATOR_ELEMENT_WISE_CLIP = 8,
  DML_OPERATOR_ACTIVATION_RELU = 44, /* one of the fourteen */
  DML_OPERATOR_AVERAGE_POOLING = 56,
  DML_OPERATOR_MAX_POOLING = 58, /* one of the fourteen */
  DML_OPERATOR_SLICE = 60,       /* one of the fourteen */
  DML_OPERATOR_UPSAMPLE_2D = 66,
  DML_OPERATOR_BATCH_NORMALIZATION = 72,
  DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION = 74,
  DML_OPERATOR_MAX_POOLING1 = 91, /* one of the fourteen */
  DML_OPERATOR_MAX_UNPOOLING = 92,
  DML_OPERATOR_RESAMPLE = 96,              /* one of the fourteen */
  DML_OPERATOR_MAX_POOLING2 = 110,         /* one of the fourteen */
  DML_OPERATOR_SLICE1 = 111,               /* one of the fourteen */
  DML_OPERATOR_RESAMPLE1 = 116,            /* one of the fourteen */
  DML_OPERATOR_ACTIVATION_RELU_GRAD = 129, /* one of the fourteen */
  DML_OPERATOR_AVERAGE_POOLING_GRAD = 130,
  DML_OPERATOR_MAX_POOLING_GRAD = 131, /* one of the fourteen */
  DML_OPERATOR_RESAMPLE_GRAD = 134,    /* one of the fourteen */
  DML_OPERATOR_SLICE_GRAD = 135,       /* one of the fourteen */
  DML_OPERATOR_ADAM_OPTIMIZER = 136,
  DML_OPERATOR_ROI_ALIGN = 139,
  DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD = 142,
  DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD = 144,
  DML_OPERATOR_BATCH_NORMALIZATION_GRAD = 146,
  DML_OPERATOR_ROI_ALIGN1 = 149,
  DML_OPERATOR_ROI_ALIGN_GRAD = 150,
  DML_OPERATOR_BATCH_NORMALIZATION_TRAINING = 151,
  DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD = 152,
  DML_OPERATOR_ELEMENT_WISE_CLIP1 = 153,
  DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1 = 154,
  DML_OPERATOR_RESAMPLE2 = 161,      /* one of the fourteen */
  DML_OPERATOR_RESAMPLE_GRAD1 = 162, /* one of the fourteen */
  DML_OPERATOR_AVERAGE_POOLING1 = 166,
  DML_OPERATOR_RESAMPLE3 = 175,
  DML_OPERATOR_UNFOLD = 177 /* the last */
} DML_OPERATOR_TYPE;

#ifdef __cplusplus
/* As Windows declares them for its flags. */
inline DML_TENSOR_FLAGS operator|(DML_TENSOR_FLAGS a, DML_TENSOR_FLAGS b) {
  return static_cast<DML_TENSOR_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
inline DML_TENSOR_FLAGS operator&(DML_TENSOR_FLAGS a, DML_TENSOR_FLAGS b) {
  return static_cast<DML_TENSOR_FLAGS>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
inline DML_TENSOR_FLAGS operator^(DML_TENSOR_FLAGS a, DML_TENSOR_FLAGS b) {
  return static_cast<DML_TENSOR_FLAGS>(static_cast<unsigned>(a) ^ static_cast<unsigned>(b));
}
inline DML_TENSOR_FLAGS operator~(DML_TENSOR_FLAGS a) {
  return static_cast<DML_TENSOR_FLAGS>(~static_cast<unsigned>(a));
}
inline DML_TENSOR_FLAGS& operator|=(DML_TENSOR_FLAGS& a, DML_TENSOR_FLAGS b) { return a = a | b; }
inline DML_TENSOR_FLAGS& operator&=(DML_TENSOR_FLAGS& a, DML_TENSOR_FLAGS b) { return a = a & b; }
inline DML_TENSOR_FLAGS& operator^=(DML_TENSOR_FLAGS& a, DML_TENSOR_FLAGS b) { return a = a ^ b; }
#endif

/* ---- Tensors and operators ------------------------------------------------------------------------- */

typedef struct DML_TENSOR_DESC {
  DML_TENSOR_TYPE Type;
  const void* Desc; /* a DML_BUFFER_TENSOR_DESC */
} DML_TENSOR_DESC;

typedef struct DML_BUFFER_TENSOR_DESC {
  DML_TENSOR_DATA_TYPE DataType;
  DML_TENSOR_FLAGS Flags; /* OWNED_BY_DML: accepted on inputs without effect, refused on outputs */
  UINT DimensionCount;    /* 1 to 8 */
  const UINT* Sizes;      /* none of them 0 */
  const UINT* Strides;    /* in elements; may be null: packed, row-major */
  UINT64 TotalTensorSizeInBytes;
  UINT GuaranteedBaseOffsetAlignment; /* 0, or a power of two not below the size of an element */
} DML_BUFFER_TENSOR_DESC;

typedef struct DML_OPERATOR_DESC {
  DML_OPERATOR_TYPE Type;
  const void* Desc; /* the struct of that operator */
} DML_OPERATOR_DESC;

typedef struct DML_ACTIVATION_RELU_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
} DML_ACTIVATION_RELU_OPERATOR_DESC;

typedef struct DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
} DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC;

/* In the pooling descs DimensionCount is the rank of the tensors less 2. */
typedef struct DML_MAX_POOLING_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
} DML_MAX_POOLING_OPERATOR_DESC;

typedef struct DML_MAX_POOLING1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  const DML_TENSOR_DESC* OutputIndicesTensor; /* may be null */
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
} DML_MAX_POOLING1_OPERATOR_DESC;

typedef struct DML_MAX_POOLING2_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  const DML_TENSOR_DESC* OutputIndicesTensor; /* may be null */
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  const UINT* Dilations;
} DML_MAX_POOLING2_OPERATOR_DESC;

typedef struct DML_MAX_POOLING_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  UINT DimensionCount;
  const UINT* Strides;
  const UINT* WindowSize;
  const UINT* StartPadding;
  const UINT* EndPadding;
  const UINT* Dilations;
} DML_MAX_POOLING_GRAD_OPERATOR_DESC;

typedef struct DML_RESAMPLE_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  DML_INTERPOLATION_MODE InterpolationMode;
  UINT ScaleCount;
  const FLOAT* Scales;
} DML_RESAMPLE_OPERATOR_DESC;

typedef struct DML_RESAMPLE1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  DML_INTERPOLATION_MODE InterpolationMode;
  UINT DimensionCount;
  const FLOAT* Scales;
  const FLOAT* InputPixelOffsets;
  const FLOAT* OutputPixelOffsets;
} DML_RESAMPLE1_OPERATOR_DESC;

typedef struct DML_RESAMPLE2_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  DML_INTERPOLATION_MODE InterpolationMode;
  DML_AXIS_DIRECTION RoundingDirection;
  UINT DimensionCount;
  const FLOAT* Scales;
  const FLOAT* InputPixelOffsets;
  const FLOAT* OutputPixelOffsets;
} DML_RESAMPLE2_OPERATOR_DESC;

/* Scales and offsets of the gradients are those of the forward operator (see BP_DML_OFFSETS_SWAPPED). */
typedef struct DML_RESAMPLE_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  DML_INTERPOLATION_MODE InterpolationMode;
  UINT DimensionCount;
  const FLOAT* Scales;
  const FLOAT* InputPixelOffsets;
  const FLOAT* OutputPixelOffsets;
} DML_RESAMPLE_GRAD_OPERATOR_DESC;

typedef struct DML_RESAMPLE_GRAD1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  DML_INTERPOLATION_MODE InterpolationMode;
  DML_AXIS_DIRECTION RoundingDirection;
  UINT DimensionCount;
  const FLOAT* Scales;
  const FLOAT* InputPixelOffsets;
  const FLOAT* OutputPixelOffsets;
} DML_RESAMPLE_GRAD1_OPERATOR_DESC;

typedef struct DML_SLICE_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* Offsets;
  const UINT* Sizes; /* those of OutputTensor */
  const UINT* Strides;
} DML_SLICE_OPERATOR_DESC;

typedef struct DML_SLICE1_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputTensor;
  const DML_TENSOR_DESC* OutputTensor;
  UINT DimensionCount;
  const UINT* InputWindowOffsets;
  const UINT* InputWindowSizes;
  const INT* InputWindowStrides;
} DML_SLICE1_OPERATOR_DESC;

typedef struct DML_SLICE_GRAD_OPERATOR_DESC {
  const DML_TENSOR_DESC* InputGradientTensor;
  const DML_TENSOR_DESC* OutputGradientTensor;
  UINT DimensionCount;
  const UINT* InputWindowOffsets;
  const UINT* InputWindowSizes;
  const INT* InputWindowStrides;
} DML_SLICE_GRAD_OPERATOR_DESC;

/* ---- Layout, where pointers have 64 bits ----------------------------------------------------------- */

static_assert(sizeof(UINT) == 4 && sizeof(INT) == 4 && sizeof(FLOAT) == 4 && sizeof(BOOL) == 4 && sizeof(UINT64) == 8,
              "Windows' types have Windows' sizes");
static_assert(sizeof(DML_TENSOR_DATA_TYPE) == 4 && sizeof(DML_TENSOR_TYPE) == 4 && sizeof(DML_TENSOR_FLAGS) == 4 &&
                  sizeof(DML_INTERPOLATION_MODE) == 4 && sizeof(DML_AXIS_DIRECTION) == 4 &&
                  sizeof(DML_FEATURE_LEVEL) == 4 && sizeof(DML_OPERATOR_TYPE) == 4,
              "an enum has 4 bytes");
static_assert(DML_TENSOR_DIMENSION_COUNT_MAX == 5 && DML_TENSOR_DIMENSION_COUNT_MAX1 == 8, "as DirectML");
#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(DML_TENSOR_DESC) == 16, "as DirectML");
static_assert(sizeof(DML_BUFFER_TENSOR_DESC) == 48, "as DirectML");
static_assert(sizeof(DML_OPERATOR_DESC) == 16, "as DirectML");
static_assert(sizeof(DML_ACTIVATION_RELU_OPERATOR_DESC) == 16, "as DirectML");
static_assert(sizeof(DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC) == 24, "as DirectML");
static_assert(sizeof(DML_MAX_POOLING_OPERATOR_DESC) == 56, "as DirectML");
static_assert(sizeof(DML_MAX_POOLING1_OPERATOR_DESC) == 64, "as DirectML");
static_assert(sizeof(DML_MAX_POOLING2_OPERATOR_DESC) == 72, "as DirectML");
static_assert(sizeof(DML_MAX_POOLING_GRAD_OPERATOR_DESC) == 72, "as DirectML");
static_assert(sizeof(DML_RESAMPLE_OPERATOR_DESC) == 32, "as DirectML");
static_assert(sizeof(DML_RESAMPLE1_OPERATOR_DESC) == 48, "as DirectML");
static_assert(sizeof(DML_RESAMPLE2_OPERATOR_DESC) == 56, "as DirectML");
static_assert(sizeof(DML_RESAMPLE_GRAD_OPERATOR_DESC) == 48, "as DirectML");
static_assert(sizeof(DML_RESAMPLE_GRAD1_OPERATOR_DESC) == 56, "as DirectML");
static_assert(sizeof(DML_SLICE_OPERATOR_DESC) == 48, "as DirectML");
static_assert(sizeof(DML_SLICE1_OPERATOR_DESC) == 48, "as DirectML");
static_assert(sizeof(DML_SLICE_GRAD_OPERATOR_DESC) == 48, "as DirectML");
#endif

#endif /* no DirectML.h */

/* ---- Results --------------------------------------------------------------------------------------- */

/* HRESULT values; Windows' own headers define them there. */
#ifndef _WIN32
#ifndef S_OK
#define S_OK 0
#endif
#ifndef E_INVALIDARG
#define E_INVALIDARG (-2147024809) /* 0x80070057 */
#endif
#ifndef DXGI_ERROR_UNSUPPORTED
#define DXGI_ERROR_UNSUPPORTED (-2005270524) /* 0x887A0004 */
#endif
#ifndef E_OUTOFMEMORY
#define E_OUTOFMEMORY (-2147024882) /* 0x8007000E */
#endif
#ifndef E_FAIL
#define E_FAIL (-2147467259) /* 0x80004005 */
#endif
#endif

/* ---- Entry points ---------------------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of bp_dml_create_operator_ex. Both RESAMPLE_GRAD documents say that the gradient's offsets are the forward
 * operator's. Code written for the other reading (InputPixelOffsets belong to InputGradientTensor) says so: the two
 * arrays are exchanged. For RESAMPLE_GRAD and RESAMPLE_GRAD1 only; refused elsewhere. */
enum { BP_DML_OFFSETS_SWAPPED = 1 };

/* Creates the operator that desc describes, by the rules and the tables of a feature level. Returns an HRESULT:
 *   S_OK
 *   E_INVALIDARG            a null pointer, a value that is no enumerator, a broken constraint; tested first
 *   DXGI_ERROR_UNSUPPORTED  an operator that is newer than the level or none of the fourteen; a type or rank that the
 *                           level's table does not list; a device that this build or machine lacks
 *                           (this version has no CUDA)
 *   E_OUTOFMEMORY, E_FAIL
 * On failure *op is null and bp_last_error() has the sentence. Nothing of desc is referred to after the call.
 *
 * Run, query and destroy the operator by backpass.h, or hand it to C++: backpass::Operator::adopt(op). Inputs and
 * outputs are bound in the order of the struct's tensor fields, counted apart; an absent OutputIndicesTensor keeps its
 * slot as null or, being the last, is left out. */
BP_API int32_t bp_dml_create_operator(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level, bp_device device,
                                      bp_operator** op);

BP_API int32_t bp_dml_create_operator_ex(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level, bp_device device,
                                         uint32_t flags, const bp_options* options, bp_operator** op);

/* What create would answer to the desc, without creating anything. */
BP_API int32_t bp_dml_check_support(const DML_OPERATOR_DESC* desc, DML_FEATURE_LEVEL level);

#ifdef __cplusplus
}
#endif

#endif /* BACKPASS_DIRECTML_H */
