/* SPDX-License-Identifier: Apache-2.0
 * backpass: backward-pass operators of neural networks, with the same bits on every device.
 *
 * This header is the C ABI that every other door (C++, DirectML descs, command line) stands on.
 * It compiles alone as C11 and as C++. The life of an operator:
 *
 *     describe   fill in the desc of its kind: tensor descs and parameters
 *     create     bp_operator_create validates everything, chooses an implementation, builds tables
 *     query      workspace, bytes that must move, implementation, why faster ones refused
 *     run        bp_operator_run, as often as wanted, from as many threads as wanted
 *     check      bp_operator_check, after a CUDA run with stored winners
 *     destroy    bp_operator_destroy
 *
 * Names: x and y are the forward input and output, dy the incoming gradient, dx the result.
 */
#ifndef BACKPASS_BACKPASS_H
#define BACKPASS_BACKPASS_H

#include <stddef.h>
#include <stdint.h>

#if defined(BP_STATIC)
#define BP_API
#elif defined(_WIN32)
#if defined(BP_BUILDING)
#define BP_API __declspec(dllexport)
#else
#define BP_API __declspec(dllimport)
#endif
#else
#define BP_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version -------------------------------------------------------------------------------------- */

#define BP_VERSION_MAJOR 0
#define BP_VERSION_MINOR 1
#define BP_VERSION_PATCH 0

/* The version of the library that was loaded: major * 10000 + minor * 100 + patch. */
BP_API uint32_t bp_version(void);

/* ---- Status --------------------------------------------------------------------------------------- */

typedef enum bp_status {
  BP_OK = 0,
  BP_INVALID_ARGUMENT = 1, /* the call breaks a rule of the contract */
  BP_UNSUPPORTED = 2,      /* well-formed, but not offered: a type, a device, a forced implementation */
  BP_OUT_OF_MEMORY = 3,
  BP_BACKEND_ERROR = 4, /* the device or its driver failed */
  BP_INTERNAL = 5       /* a defect of this library */
} bp_status;

/* The sentence that belongs to the last call on this thread that did not return BP_OK ("" before any). It names the
 * operator, the tensor or parameter, the axis, the value found and the one expected. Valid until the next
 * failing call on this thread. */
BP_API const char* bp_last_error(void);

/* "ok", "invalid_argument", ... ; "unknown" for a value that is none. */
BP_API const char* bp_status_name(int32_t status);

/* ---- Tensors -------------------------------------------------------------------------------------- */

enum { BP_MAX_RANK = 8 };

typedef enum bp_dtype {
  BP_F64 = 1,
  BP_F32 = 2,
  BP_F16 = 3,
  BP_BF16 = 4,
  BP_I64 = 5,
  BP_I32 = 6,
  BP_I16 = 7,
  BP_I8 = 8,
  BP_U64 = 9,
  BP_U32 = 10,
  BP_U16 = 11,
  BP_U8 = 12
} bp_dtype;

/* A view: rank 1 to 8, sizes and strides in elements. Null strides mean packed, row-major. The pointer given to run is
 * the address of element (0, ..., 0). An input may have any strides (0, negative, overlapping); the elements of an
 * output must provably not share memory. The arrays are copied by create. */
typedef struct bp_tensor_desc {
  size_t struct_size; /* sizeof(bp_tensor_desc) */
  int32_t dtype;      /* bp_dtype */
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides; /* may be null */
} bp_tensor_desc;

/* ---- Devices and options --------------------------------------------------------------------------- */

/* CUDA: create is answered with BP_UNSUPPORTED where the library was built without it, where there is no driver or no
 * such device, and while a stream is being captured into a graph. The pointers of a run, the workspace too, are the
 * device's; run only puts work on the stream, also on one that is being captured. destroy waits until the device is
 * done, so that no kernel loses its tables; a graph must not be launched after the operators it has captured are gone.
 * The caller's current device stays selected. */
enum { BP_DEVICE_CPU = 0, BP_DEVICE_CUDA = 1 };

typedef struct bp_device {
  int32_t kind;
  int32_t ordinal;
} bp_device;

/* Calls task(data, i) once for every i in [0, count), in any order and on any threads, and returns when all are done.
 */
typedef void (*bp_parallel_for)(void* context, int64_t count, void (*task)(void* data, int64_t index), void* data);

/* A null bp_options* means all defaults; so does a zero in any field but struct_size. Neither the threads nor their
 * number change a bit of any result. The reference implementations run on the calling thread alone. */
typedef struct bp_options {
  size_t struct_size;           /* sizeof(bp_options) */
  const char* implementation;   /* force the implementation of this name; null: the best that accepts */
  int32_t threads;              /* the most threads a CPU run may use; 0: all the processor has */
  int32_t reserved;             /* 0 */
  bp_parallel_for parallel_for; /* the caller's own thread pool; null: the library's */
  void* parallel_for_context;
} bp_options;

/* ---- Operators ------------------------------------------------------------------------------------- */

typedef enum bp_operator_kind {
  BP_RELU = 1,
  BP_RELU_GRAD = 2,
  BP_MAX_POOL = 3,
  BP_MAX_POOL_GRAD = 4,
  BP_RESAMPLE = 5,
  BP_RESAMPLE_GRAD = 6,
  BP_SLICE = 7,
  BP_SLICE_GRAD = 8,
  BP_CONVERT_WINNERS = 9
} bp_operator_kind;

/* The first field of every desc is its struct_size. Tensors are bound at run in the order of the fields, inputs and
 * outputs counted apart; an absent optional tensor (null desc) keeps its slot as a null pointer, and may be left out
 * where it is the last. */

/* y = x > 0 or NaN ? x : +0.   Types f64 f32 f16 bf16 i64 i32 i16 i8. y may be x (identical views). */
typedef struct bp_relu_desc {
  size_t struct_size;
  const bp_tensor_desc* x; /* input 0 */
  const bp_tensor_desc* y; /* output 0 */
} bp_relu_desc;

enum { BP_NAN_ZERO = 0, BP_NAN_PASS = 1 };

/* dx = x > 0 ? dy : +0. Where x is NaN: +0, or dy with BP_NAN_PASS. x may be the forward input or output.
 * dx may be x or dy (identical views). Types as relu. */
typedef struct bp_relu_grad_desc {
  size_t struct_size;
  const bp_tensor_desc* x;  /* input 0 */
  const bp_tensor_desc* dy; /* input 1 */
  const bp_tensor_desc* dx; /* output 0 */
  int32_t nan;              /* BP_NAN_ZERO, BP_NAN_PASS */
  int32_t reserved;         /* 0 */
} bp_relu_grad_desc;

/* How the winner of a pooling window is stored:
 *   compact  the tap's row-major number in its window; u8 for windows of at most 255 taps, else u16 (65,535), else u32;
 *            the type's largest value: no winner
 *   flat     the row-major logical index into all of x; u32 u64 i32 i64; all ones or -1: no winner
 *   plane    the row-major index into the spatial axes of x, as PyTorch keeps it; same types; converters only */
enum { BP_WINNERS_NONE = 0, BP_WINNERS_COMPACT = 1, BP_WINNERS_FLAT = 2, BP_WINNERS_PLANE = 3 };

/* One entry for each spatial axis (rank - 2 of them: the tensors are {N, C, spatial...} of rank 3 to 5). */
typedef struct bp_window {
  size_t struct_size;           /* sizeof(bp_window) */
  int32_t spatial_rank;         /* entries in each array, 1 to 3 */
  int32_t reserved;             /* 0 */
  const int64_t* size;          /* >= 1; at most 2^32 - 2 taps in all */
  const int64_t* strides;       /* >= 1; null: the window size */
  const int64_t* start_padding; /* null: 0 */
  const int64_t* end_padding;   /* null: 0 */
  const int64_t* dilations;     /* >= 1; null: 1 */
} bp_window;

/* y = the greatest value of each window: NaN above everything, the lowest index among equals, padding never.
 * Output size: 1 up to ceil((H + P + Q - E) / S) + 1, where E = (W - 1) * D + 1. All twelve types. */
typedef struct bp_max_pool_desc {
  size_t struct_size;
  const bp_tensor_desc* x;       /* input 0 */
  const bp_tensor_desc* y;       /* output 0 */
  const bp_tensor_desc* winners; /* output 1, may be null */
  const bp_window* window;
  int32_t winners_kind; /* BP_WINNERS_COMPACT or _FLAT where winners is given */
  int32_t reserved;     /* 0 */
} bp_max_pool_desc;

/* dx[p] = sum of dy[o] over the windows whose winner is p, in ascending o. The winners are recomputed from x, or read:
 * give exactly one of the two. A stored winner that is no tap of its window contributes nothing and is reported: on the
 * CPU run returns BP_INVALID_ARGUMENT with dx fully written. Types f64 f32 f16 bf16. */
typedef struct bp_max_pool_grad_desc {
  size_t struct_size;
  const bp_tensor_desc* x;       /* input 0, null with stored winners */
  const bp_tensor_desc* dy;      /* input 1 */
  const bp_tensor_desc* winners; /* input 2, null when recomputing */
  const bp_tensor_desc* dx;      /* output 0 */
  const bp_window* window;
  int32_t winners_kind; /* BP_WINNERS_COMPACT or _FLAT where winners is given */
  int32_t reserved;     /* 0 */
} bp_max_pool_grad_desc;

/* Rewrites stored winners from one form to another. A wrong winner becomes "no winner" and is reported as above. */
typedef struct bp_convert_winners_desc {
  size_t struct_size;
  const bp_tensor_desc* from; /* input 0 */
  const bp_tensor_desc* to;   /* output 0, the same sizes */
  const int64_t* x_sizes;     /* spatial_rank + 2 entries: the sizes of the forward input */
  const bp_window* window;
  int32_t from_kind; /* BP_WINNERS_COMPACT, _FLAT, _PLANE */
  int32_t to_kind;
} bp_convert_winners_desc;

enum { BP_NEAREST = 0, BP_LINEAR = 1 };
enum { BP_ROUND_INCREASING = 0, BP_ROUND_DECREASING = 1, BP_ROUND_HALF_UP = 2 };
enum { BP_HALF_PIXEL = 0, BP_ALIGN_CORNERS = 1, BP_ASYMMETRIC = 2 };

/* One axis of a resample given outright: output o is the sum of weights * x[first[o] .. first[o] + count[o]).
 * An entry whose first is null leaves its axis to the mode and scale. */
typedef struct bp_resample_table {
  const int64_t* first;  /* one entry for each output index */
  const int64_t* count;  /* likewise, 0 and more; first + count <= the input size */
  const double* weights; /* finite, those of output 0 first */
  int64_t weight_count;  /* the sum of count */
} bp_resample_table;

/* The forward map, shared by both directions. Source coordinate of output o: c = (o - output_offset) / scale -
 * input_offset. Without scales the convention's exact rational coordinate is used; with scales the convention supplies
 * only the offsets that are not given. Arrays have one entry for each axis of the tensors; any axis may be resampled.
 * A zeroed map means nearest, rounded increasing; backpass.hpp and the command line start from linear, and from half-up
 * for nearest. */
typedef struct bp_resample_map {
  size_t struct_size;              /* sizeof(bp_resample_map) */
  int32_t mode;                    /* BP_NEAREST, BP_LINEAR */
  int32_t rounding;                /* BP_ROUND_*, for nearest */
  int32_t convention;              /* BP_HALF_PIXEL, BP_ALIGN_CORNERS, BP_ASYMMETRIC */
  int32_t rank;                    /* entries in each array; the rank of the tensors */
  const double* scales;            /* forward scales, finite and > 0; may be null */
  const double* input_offsets;     /* finite; may be null; need scales */
  const double* output_offsets;    /* finite; may be null; need scales */
  const bp_resample_table* tables; /* rank entries; may be null */
} bp_resample_map;

/* Types f64 f32 f16 bf16 i8 u8. At most 2^40 elements on an axis that is resampled (else BP_UNSUPPORTED). */
typedef struct bp_resample_desc {
  size_t struct_size;
  const bp_tensor_desc* x; /* input 0 */
  const bp_tensor_desc* y; /* output 0 */
  const bp_resample_map* map;
} bp_resample_desc;

/* The exact adjoint of the forward operator with the same map. Types f64 f32 f16 bf16. */
typedef struct bp_resample_grad_desc {
  size_t struct_size;
  const bp_tensor_desc* dy; /* input 0 */
  const bp_tensor_desc* dx; /* output 0 */
  const bp_resample_map* map;
} bp_resample_grad_desc;

/* One entry for each axis: the window [offset, offset + size) of x, walked by stride; a negative stride starts at its
 * end. Output size: 1 up to 1 + (size - 1) / |stride|. */
typedef struct bp_slice_window {
  size_t struct_size; /* sizeof(bp_slice_window) */
  int32_t rank;       /* entries in each array; the rank of the tensors */
  int32_t reserved;   /* 0 */
  const int64_t* offsets;
  const int64_t* sizes;
  const int64_t* strides; /* not 0; null: 1 */
} bp_slice_window;

/* y[c] = x[start + stride * c]. Pure movement: all twelve types, every bit pattern. */
typedef struct bp_slice_desc {
  size_t struct_size;
  const bp_tensor_desc* x; /* input 0 */
  const bp_tensor_desc* y; /* output 0 */
  const bp_slice_window* window;
} bp_slice_desc;

/* dx[start + stride * c] = dy[c], zero bits elsewhere. */
typedef struct bp_slice_grad_desc {
  size_t struct_size;
  const bp_tensor_desc* dy; /* input 0 */
  const bp_tensor_desc* dx; /* output 0 */
  const bp_slice_window* window;
} bp_slice_grad_desc;

/* ---- Life of an operator --------------------------------------------------------------------------- */

typedef struct bp_operator bp_operator;

/* kind is a bp_operator_kind, desc points at the struct of that kind. Nothing of it is referred to after the call. On
 * failure *op is null. */
BP_API bp_status bp_operator_create(int32_t kind, const void* desc, bp_device device, const bp_options* options,
                                    bp_operator** op);

BP_API bp_status bp_operator_workspace_size(const bp_operator* op, size_t* bytes);

/* The fewest bytes the operator must read and write. */
BP_API bp_status bp_operator_bytes(const bp_operator* op, uint64_t* bytes);

/* The operator's name ("max_pool_grad"), and the chosen implementation's; "" for a null operator. */
BP_API const char* bp_operator_name(const bp_operator* op);
BP_API const char* bp_operator_implementation(const bp_operator* op);

/* The implementations that come before the chosen one in its list, and why each refused. */
BP_API size_t bp_operator_refusal_count(const bp_operator* op);
BP_API bp_status bp_operator_refusal(const bp_operator* op, size_t index, const char** implementation,
                                     const char** reason);

/* The plan as text, line by line: the problem as `backpass` takes it, implementation, refusals, tables, bytes,
 * workspace. Writes at most capacity bytes, the closing 0 included, and the full length (without it) to *length. */
BP_API bp_status bp_operator_explain(const bp_operator* op, char* text, size_t capacity, size_t* length);

/* Reads inputs, writes outputs; the outputs need not be cleared. Everything that can be known is checked before
 * anything is written. No allocation (but for the sentence of a failure), no lock, no host synchronisation. One
 * operator may run from many threads at once, each with its own workspace. The workspace needs malloc's alignment and
 * may be null when its size is 0; stream is a cudaStream_t, or null. */
BP_API bp_status bp_operator_run(const bp_operator* op, const void* const* inputs, size_t input_count,
                                 void* const* outputs, size_t output_count, void* workspace, void* stream);

/* Reads the flag that a CUDA run with stored winners leaves in its workspace; waits for the stream. Always BP_OK for
 * the CPU, whose run reports at once. */
BP_API bp_status bp_operator_check(const bp_operator* op, void* workspace, void* stream);

BP_API void bp_operator_destroy(bp_operator* op);

/* ---- What there is --------------------------------------------------------------------------------- */

/* Whether this library can create an operator of this kind for tensors of this type on this kind of device. */
BP_API int32_t bp_is_supported(int32_t kind, int32_t device_kind, int32_t dtype);

/* The implementations of an operator for a kind of device, best first; null beyond the last. */
BP_API const char* bp_implementation_name(int32_t kind, int32_t device_kind, size_t index);

/* The devices of this kind that can be used now (0 or more), and the CPU's instruction sets, best first, as a comma
 * list (BACKPASS_MAX_ISA applied). */
BP_API int32_t bp_device_count(int32_t device_kind);
BP_API const char* bp_cpu_instruction_sets(void);

#ifdef __cplusplus
}
#endif

#endif /* BACKPASS_BACKPASS_H */
