/* Octet's runtime for C, and for every language that calls C: loads an .octet file and runs it.
 * Needs neither LibTorch nor Python.
 *
 * Functions that can fail return NULL or a status other than 0 and leave a text of one line behind,
 * octet_last_error(). Nothing throws or exits, not even where memory runs out, but for two
 * libraries: oneDNN crashes when one of its own small allocations fails, and OpenMP, which runs
 * oneDNN's threads, exits. Where the memory of a process is limited, use XNNPACK or the reference.
 * One octet_model runs in one thread at a time; different ones run at the same time.
 *
 * fork: where a model has several threads, a child of the process runs it, and each model that it
 * loads, with one, as octet_warning says then; states go on as they were. The first run in the
 * child compiles the model anew. No thread of the parent may be in a call of Octet at the fork.
 *
 * The binary interface is versioned: within one OCTET_ABI_VERSION functions, numbers and struct
 * members are only added, never changed. A program that was compiled against an older header
 * runs with a newer library of the same OCTET_ABI_VERSION; who opens the library at run time
 * compares that number with octet_abi_version(). Texts are UTF-8 and belong to the library. */
#ifndef OCTET_H
#define OCTET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OCTET_API __attribute__((visibility("default")))
#else
#define OCTET_API
#endif

#define OCTET_ABI_VERSION 1

/* Element types. The numbers are part of the binary interface. */
typedef enum octet_dtype {
  OCTET_OTHER = 0, /* complex and 8-bit floats, which no runtime computes with */
  OCTET_BOOL = 1,
  OCTET_UINT8 = 2,
  OCTET_INT8 = 3,
  OCTET_UINT16 = 4,
  OCTET_INT16 = 5,
  OCTET_UINT32 = 6,
  OCTET_INT32 = 7,
  OCTET_UINT64 = 8,
  OCTET_INT64 = 9,
  OCTET_FLOAT16 = 10,
  OCTET_BFLOAT16 = 11,
  OCTET_FLOAT32 = 12,
  OCTET_FLOAT64 = 13
} octet_dtype;

typedef enum octet_status {
  OCTET_OK = 0,
  OCTET_FAILED = 1,        /* the file, an input or the machine: octet_last_error() says what */
  OCTET_INTERNAL_ERROR = 2 /* a fault of Octet itself */
} octet_status;

/* A loaded and compiled program. */
typedef struct octet_model octet_model;

#define OCTET_DEFAULT_THREADS (-1)

/* Zero-initialize, set `size` to sizeof(octet_options), then what is wanted. */
typedef struct octet_options {
  size_t size;
  /* at most 1024; 0: one; OCTET_DEFAULT_THREADS: as many as there are CPUs for the process (its
   * affinity and the CPU quota of its control groups heeded), at most OMP_NUM_THREADS of the
   * environment. More than there are CPUs are not used, which octet_warning says. While other
   * processes keep the CPUs busy a model may run with one. */
  int threads;
  /* 1: the bytes of the file are not compared with its checksum, and only those that are used
   * are read */
  int skip_checksum;
  /* bytes that inputs, outputs, states, intermediates and copies of a constant beyond the first
   * may take at once; 0: what the machine has */
  uint64_t memory_limit;
  /* of a model with open sizes: how many sets of sizes stay compiled, the last used ones; 0:
   * four */
  size_t cached_shapes;
  /* A folder, made when needed, where packed weights of models on oneDNN are kept for the next
   * octet_load, which then maps them; NULL: nowhere. What is there is an aid alone: when it is
   * missing, damaged, of another CPU, or cannot be written, the model loads as without, and
   * octet_warning says so. The same holds for a folder or a file that belongs to another user (but
   * root), or that others may write. Nobody may cut such a file off while a model uses it. Models
   * whose file has a checksum, as `octet lower` writes it. */
  const char* cache_folder;
  /* how often a loop of the model may run its body in one octet_run, after which that fails; 0:
   * without limit */
  uint64_t loop_limit;
} octet_options;

/* What one input or output is. The pointers stay valid as long as the model. */
typedef struct octet_tensor_info {
  size_t size; /* set by the caller to sizeof(octet_tensor_info) */
  const char* name;
  octet_dtype dtype;
  int rank;
  const int64_t* shape; /* `rank` sizes; -1 for an open one, see octet_bind */
  size_t bytes;         /* of its row-major elements, at the bound sizes */
  /* of quantized integers: real = scale * (integer - zero_point); 0 otherwise */
  float scale;
  int32_t zero_point;
  const int64_t* min_shape; /* `rank` sizes: the least that each may be */
  /* and the greatest; where one open size decides another, at its ends */
  const int64_t* max_shape;
  /* `rank` sizes, those of the next octet_run; valid until the next octet_bind */
  const int64_t* bound_shape;
} octet_tensor_info;

/* The library's OCTET_ABI_VERSION, and its version as text ("0.1.0"). */
OCTET_API int octet_abi_version(void);
OCTET_API const char* octet_version(void);
/* Names of the backends in this library, separated by spaces. */
OCTET_API const char* octet_backends(void);

/* Maps a file, checks it, compiles it. options may be NULL. Returns NULL on failure. Until
 * octet_free nobody may write into the file or cut it off (the system ends a process that reads
 * what is no longer there); another file may take its place by a rename. */
OCTET_API octet_model* octet_load(const char* path, const octet_options* options);
/* The same of a file's bytes, which must stay as they are until octet_free. They are not copied
 * when they start at a multiple of 64. */
OCTET_API octet_model* octet_load_memory(const void* bytes, size_t size,
                                         const octet_options* options);
OCTET_API void octet_free(octet_model* model);

/* The same model once more, for another thread: compiled anew, without reading the file again.
 * Weights are shared, and each of the two is freed for itself, in any order. Not while `model`
 * is running. Returns NULL on failure. */
OCTET_API octet_model* octet_duplicate(const octet_model* model);
/* What this machine does less well than the model was made for: a line of text for each cause,
 * from index 0 on, NULL behind the last. Valid as long as the model. Those of a model whose
 * sizes are not all fixed are known once octet_bind or octet_run has compiled it. */
OCTET_API const char* octet_warning(const octet_model* model, size_t index);

/* Inputs and outputs are numbered as those of the exported program. An input that the program
 * does not read has 0 bytes and the name "". */
OCTET_API size_t octet_input_count(const octet_model* model);
OCTET_API size_t octet_output_count(const octet_model* model);
OCTET_API octet_status octet_input(const octet_model* model, size_t index, octet_tensor_info* info);
OCTET_API octet_status octet_output(const octet_model* model, size_t index,
                                    octet_tensor_info* info);
/* Bytes of the block that holds what flows between backends; allocated by octet_load, or for
 * open sizes by octet_bind (0 before). */
OCTET_API size_t octet_arena_bytes(const octet_model* model);

/* Of a model whose sizes are not all fixed (exported with a dynamic batch, say): the sizes of
 * the inputs of the octet_run calls that follow. shapes[i]: address of the sizes of input i, as
 * many as its rank; may be NULL for an input with 0 bytes and the name "". New sizes are
 * compiled; sizes that are still compiled (octet_options.cached_shapes) cost little, and those
 * of before nothing. Before the first octet_bind, the sizes of the exported example are bound.
 * After a failure they may be again. */
OCTET_API octet_status octet_bind(octet_model* model, const int64_t* const* shapes);

/* inputs[i], outputs[i]: addresses of octet_input(i).bytes and octet_output(i).bytes bytes,
 * aligned to the element size, outputs apart from each other and from the inputs. Of OCTET_BOOL
 * each byte but 0 is true in inputs, and outputs have 0 and 1. After the
 * first run nothing is allocated for segments of XNNPACK and the reference. */
OCTET_API octet_status octet_run(octet_model* model, const void* const* inputs,
                                 void* const* outputs);

/* The sizes of output `index` after octet_run: `rank` numbers go to `shape`. They are those of
 * octet_output(index).bound_shape, or at most these where the run alone decides a size (how many
 * elements a mask selects; -1 in octet_tensor_info.shape): the output is then as many elements as
 * they say, row-major, at the start of its memory, which has room for the greatest. */
OCTET_API octet_status octet_output_shape(const octet_model* model, size_t index, int64_t* shape);

/* Of a model that keeps values from run to run (caches, counters, running statistics: buffers that
 * the exported program writes): they become what they were before the first octet_run. Each
 * octet_run reads them as the one before left them; one that fails leaves them as they were. Each
 * model has its own, those of octet_duplicate start anew. Does nothing where there are none. */
OCTET_API octet_status octet_reset_states(octet_model* model);

/* Why the last call of this thread failed, or "". Valid until this thread's next call. */
OCTET_API const char* octet_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
