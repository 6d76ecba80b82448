/* The interface of a plug-in: a shared library with one backend, which octet_load_plugin (octet.h),
 * octet_runtime.load_plugin (Python) and `octet --library` load. Only C crosses it, so a plug-in
 * and the Octet that loads it may be built by different compilers, with or without LibTorch. In
 * C++, use OCTET_PLUGIN of backends/plugin/plugin.h instead of this header.
 *
 * Octet gives the plug-in small programs: one op when it asks whether the backend runs it, and a
 * segment of accepted ops to compile. The ops and their attributes are those of
 * lowering/program/ops.def (`octet inspect --ops`). Refuse every kind and every attribute that you
 * do not know, because later versions of Octet add some; Octet runs a refused op elsewhere.
 *
 * Promises. Within one OCTET_PLUGIN_INTERFACE, whose OCTET_PLUGIN_MINOR counts the additions,
 * - members are only added, at the end of structs that begin with `size`; other structs, numbers
 *   and functions never change. A plug-in that was compiled against an older header works, and so
 *   does one that was compiled against a newer header, whose additional members are ignored;
 * - an op or attribute in ops.def keeps its meaning.
 * Octet copies the octet_plugin table when it loads the plug-in, and never unloads a plug-in.
 *
 * Threads. Octet may call `accepts` and `compile` from several threads, and `run` for several
 * segments at once, but uses each segment in one thread at a time. In a forked process it calls
 * `destroy` for the parent's segments and compiles them again.
 *
 * Errors. A function that fails returns OCTET_PLUGIN_FAILED and writes one line to `message`, which
 * has room for `capacity` bytes with the final 0: snprintf(message, capacity, "out of SRAM"). No
 * exception may leave a function. Strings are UTF-8. */
#ifndef OCTET_PLUGIN_H
#define OCTET_PLUGIN_H

#include "octet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OCTET_PLUGIN_INTERFACE 1
#define OCTET_PLUGIN_MINOR 1

typedef enum octet_plugin_status {
  OCTET_PLUGIN_OK = 0,
  OCTET_PLUGIN_FAILED = 1, /* see `message` */
  OCTET_PLUGIN_REFUSED = 2 /* only from `accepts`; the reason is in `message` */
} octet_plugin_status;

/* An argument of an op. An attribute that is absent has the default in ops.def. */
typedef enum octet_plugin_type {
  OCTET_PLUGIN_BOOL = 0,     /* integer: 0 or 1 */
  OCTET_PLUGIN_INTEGER = 1,  /* integer */
  OCTET_PLUGIN_REAL = 2,     /* real */
  OCTET_PLUGIN_TEXT = 3,     /* text, of `count` bytes and a final 0 */
  OCTET_PLUGIN_INTEGERS = 4, /* integers, `count` of them */
  OCTET_PLUGIN_REALS = 5     /* reals, `count` of them */
} octet_plugin_type;

typedef struct octet_plugin_attribute {
  const char* name; /* "stride" */
  octet_plugin_type type;
  int64_t integer;
  double real;
  size_t count;
  const char* text;
  const int64_t* integers;
  const double* reals;
} octet_plugin_attribute;

typedef struct octet_plugin_tensor {
  size_t size;
  const char* name; /* unique in the program */
  octet_dtype dtype;
  int rank;
  const int64_t* shape; /* `rank` sizes, as in the exported program (NCHW) */
  size_t bytes;         /* of the row-major elements */
  int is_constant;
  /* The elements of a constant, aligned to the size of an element; NULL for other tensors. */
  const void* data;
  /* Quantized integers: real = scales[i] * (integer - zero_points[i]), where i is 0 if axis is -1,
   * and otherwise the index along `axis`. qparam_count is 0 for other tensors. */
  size_t qparam_count;
  const float* scales;
  const int32_t* zero_points;
  int axis;
  /* Only if octet_plugin.reads_compact is set, for float32 constants that the file stores as
   * integers or float16 (`data` is NULL then): real = (value - zero_point) * scale. The shape of
   * `compact_scales` and `compact_zero_points` (float32) is the number of blocks in each dimension;
   * NULL: scale 1, zero point 0. */
  const struct octet_plugin_tensor* compact_values;
  const struct octet_plugin_tensor* compact_scales;
  const struct octet_plugin_tensor* compact_zero_points;
} octet_plugin_tensor;

typedef struct octet_plugin_op {
  size_t size;
  const char* kind; /* of ops.def: "conv" */
  const char* name; /* of the node in the exported program */
  size_t input_count;
  const int* inputs; /* indices of tensors; -1: an optional input that is absent */
  size_t output_count;
  const int* outputs;
  size_t attribute_count;
  const octet_plugin_attribute* attributes;
  int64_t macs; /* multiply-accumulates in a run; 0 if the op has none */
} octet_plugin_op;

/* All sizes are fixed: a program with open sizes is compiled again for each set of sizes. */
typedef struct octet_plugin_program {
  size_t size;
  size_t tensor_count;
  const octet_plugin_tensor* const* tensors;
  size_t op_count;
  const octet_plugin_op* const* ops; /* in the order of execution */
  size_t input_count;
  const int* inputs; /* tensors that `run` gets */
  size_t output_count;
  const int* outputs; /* tensors that `run` writes; all others are the plug-in's own matter */
} octet_plugin_program;

/* A compiled segment, defined by the plug-in. */
typedef struct octet_plugin_segment octet_plugin_segment;

/* A library that the plug-in uses. An .octet file records it; loading the file with another major
 * or minor version is an error. */
typedef struct octet_plugin_version {
  const char* name;    /* "acme_driver" */
  const char* version; /* "1.2.0" */
} octet_plugin_version;

/* How far results of an op may be from the reference's (`octet conformance`). */
typedef struct octet_plugin_tolerance {
  const char* cells; /* a kind of op, or "kind/shape" */
  double steps;      /* of integers */
  double relative;   /* of floats: share of the greatest magnitude in the result */
  const char* reason;
} octet_plugin_tolerance;

/* A call of a kernel in a segment, for `octet bench --explain`. */
typedef struct octet_plugin_kernel {
  size_t op_count;
  const char* const* ops; /* names of the ops that it computes */
  const char* what;       /* "convolution" */
  const char* kernel;     /* the library's name of the implementation */
  const char* layout;     /* "i8 -> i8" */
  const char* post_ops;   /* "relu", or "" */
  const char* note;       /* why it is slower than it could be, or "" */
  double seconds;         /* of the fastest timed run; 0 without one */
} octet_plugin_kernel;

/* Why ops run slower on this machine than they could. */
typedef struct octet_plugin_warning {
  const char* cause;
  size_t op_count;
  const char* const* ops;
} octet_plugin_warning;

typedef struct octet_plugin {
  size_t size;                /* sizeof(octet_plugin) */
  uint32_t interface_version; /* OCTET_PLUGIN_INTERFACE */
  const char* name;           /* of the backend: letters, digits and '_', at most 64 */
  /* "1.2.0", at most 64 characters. An .octet file records it with a hash of the library; loading
   * the file with another major or minor version is an error, with another hash a warning. */
  const char* version;

  /* Whether the backend runs the only op of the program. OCTET_PLUGIN_REFUSED needs a reason. The
   * program is valid during the call. */
  octet_plugin_status (*accepts)(const octet_plugin_program* program, char* message,
                                 size_t capacity);
  /* Prepares ops that `accepts` accepted. threads: at least 1. The program stays valid until
   * `destroy` of the segment. After a failure *segment is ignored. */
  octet_plugin_status (*compile)(const octet_plugin_program* program, int threads,
                                 octet_plugin_segment** segment, char* message, size_t capacity);
  /* inputs[i], outputs[i]: the row-major elements of tensor program->inputs[i], ->outputs[i]. */
  octet_plugin_status (*run)(octet_plugin_segment* segment, const void* const* inputs,
                             void* const* outputs, char* message, size_t capacity);
  void (*destroy)(octet_plugin_segment* segment);

  /* Optional from here on: 0 or NULL. */

  int reads_compact; /* 1: see octet_plugin_tensor.compact_values. 0: `data` has floats */
  size_t version_count;
  const octet_plugin_version* versions;
  size_t tolerance_count;
  const octet_plugin_tolerance* tolerances;
  /* The kinds of which it accepts some ops, for tables. */
  size_t kind_count;
  const char* const* kinds;
  /* The kernels of a segment in the order of the calls, and its warnings: from index 0 on, then
   * NULL. Valid until the next call for the segment. */
  const octet_plugin_kernel* (*kernel)(octet_plugin_segment* segment, size_t index);
  const octet_plugin_warning* (*warning)(octet_plugin_segment* segment, size_t index);
  /* on: 1 starts timing each kernel, 0 stops; both reset the times. */
  void (*time_kernels)(octet_plugin_segment* segment, int on);

  /* Since OCTET_PLUGIN_MINOR 1. */

  /* What makes up for running a segment on the backend: one with fewer multiply-accumulates than
   * macs_per_segment + macs_per_byte * (bytes of its inputs and outputs) goes to the next backend.
   * Both are at least 0. */
  double macs_per_segment;
  double macs_per_byte;
  /* The sizes of an output that the last run decided, if the run decides them: writes `rank` sizes,
   * none above those in the program, and returns 1. output: its position in program->outputs.
   * Returns 0 if the sizes are those in the program. */
  int (*output_shape)(octet_plugin_segment* segment, size_t output, int64_t* sizes, int rank);
} octet_plugin;

/* The function that a plug-in defines; it may be called several times. host_interface: the
 * OCTET_PLUGIN_INTERFACE of the Octet that loads the plug-in. Returns NULL and writes a message if
 * the plug-in cannot work, because a device is missing, say. */
OCTET_API const octet_plugin* octet_plugin_entry(uint32_t host_interface, char* message,
                                                 size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
