/* Octet's runtime for C, and for every language that calls C: loads an .octet file and runs it.
 * Needs neither LibTorch nor Python.
 *
 * Functions that can fail return NULL or a nonzero status and set a one-line message,
 * octet_last_error(). Nothing throws or exits, not even when memory runs out, with two exceptions:
 * oneDNN crashes when one of its small allocations fails, and OpenMP, which runs oneDNN's threads,
 * exits. If the memory of a process is limited, use XNNPACK or the reference backend.
 * One octet_model runs in one thread at a time; different models can run at the same time.
 *
 * fork: a child process runs models with one thread, both inherited models that have several
 * threads and models that it loads later; octet_warning then says so. States are preserved. The
 * first run in the child recompiles the model. At the fork, no thread of the parent may be in a
 * call to Octet.
 *
 * The binary interface is versioned: within one OCTET_ABI_VERSION, functions, numbers and struct
 * members are only added, never changed. A program that was compiled against an older header
 * runs with a newer library of the same OCTET_ABI_VERSION; programs that open the library at run
 * time compare that number with octet_abi_version(). Strings are UTF-8, owned by the library. */
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
  OCTET_FAILED = 1,        /* caused by the file, an input or the machine: see octet_last_error() */
  OCTET_INTERNAL_ERROR = 2 /* a bug in Octet */
} octet_status;

/* A loaded and compiled program. */
typedef struct octet_model octet_model;

#define OCTET_DEFAULT_THREADS (-1)

/* Zero-initialize, set `size` to sizeof(octet_options), then set options as needed. */
typedef struct octet_options {
  size_t size;
  /* at most 1024; 0: one; OCTET_DEFAULT_THREADS: the number of CPUs available to the process (its
   * affinity mask and the CPU quota of its control groups apply), at most OMP_NUM_THREADS. Threads
   * beyond the number of CPUs are not used, and octet_warning says so. While other processes keep
   * the CPUs busy, a model may run with one thread. */
  int threads;
  /* 1: do not verify the checksum of the file, so that only the bytes in use are read */
  int skip_checksum;
  /* limit of the bytes of inputs, outputs, states, intermediates and additional copies of
   * constants; 0: the machine's memory */
  uint64_t memory_limit;
  /* for open sizes: how many sets of sizes stay compiled, those used last; 0: four */
  size_t cached_shapes;
  /* A folder, created when needed, that caches packed weights of models on oneDNN: the next
   * octet_load maps them. NULL: no cache. When a cached file is missing, damaged, from another CPU,
   * or cannot be written, the model loads without it, and octet_warning says so. So it does when
   * the folder or file belongs to another user (except root) or others may write it. Do not
   * truncate such a file while a model uses it. Applies to models whose file has a checksum, as
   * `octet lower` writes it. */
  const char* cache_folder;
  /* how often a loop of the model may run its body in one octet_run before the run fails; 0: no
   * limit */
  uint64_t loop_limit;
  /* for language models: the first output has the scores (logits) of this many last positions;
   * 0: of all. octet_load fails if the model does not compute it by one linear. */
  size_t logits_to_keep;
} octet_options;

/* Describes one input or output. The pointers are valid as long as the model. */
typedef struct octet_tensor_info {
  size_t size; /* set by the caller to sizeof(octet_tensor_info) */
  const char* name;
  octet_dtype dtype;
  int rank;
  const int64_t* shape; /* `rank` sizes; -1: open, see octet_bind */
  size_t bytes;         /* of the row-major elements at the bound sizes */
  /* for quantized integers, real = scale * (integer - zero_point); 0 otherwise */
  float scale;
  int32_t zero_point;
  const int64_t* min_shape; /* `rank` sizes: the minimum of each */
  /* and the maximum; a size that depends on another open size gets its values at that one's ends */
  const int64_t* max_shape;
  /* `rank` sizes of the next octet_run; valid until the next octet_bind */
  const int64_t* bound_shape;
} octet_tensor_info;

/* The library's OCTET_ABI_VERSION, and its version as a string ("0.1.0"). */
OCTET_API int octet_abi_version(void);
OCTET_API const char* octet_version(void);
/* Names of the backends in this library, separated by spaces, loaded plug-ins included. */
OCTET_API const char* octet_backends(void);

/* Loads a plug-in (octet_plugin.h), a shared library with one backend: octet_load then runs files
 * that were lowered for it. Loading a plug-in again changes nothing, and none is unloaded.
 * path: of the library's file; the dynamic linker's folders are not searched. */
OCTET_API octet_status octet_load_plugin(const char* path);

/* Maps a file, checks it and compiles it. options may be NULL. Returns NULL on failure. Do not
 * write to the file or truncate it before octet_free (reading a truncated mapping kills the
 * process); replace it by renaming another file over it. */
OCTET_API octet_model* octet_load(const char* path, const octet_options* options);
/* As octet_load, from the bytes of a file, which must stay unchanged until octet_free. They are
 * not copied when they are aligned to 64 bytes. */
OCTET_API octet_model* octet_load_memory(const void* bytes, size_t size,
                                         const octet_options* options);
OCTET_API void octet_free(octet_model* model);

/* Compiles the model again, for another thread, without reading the file again. The models share
 * weights; free each of them, in any order. Do not call it while `model` is running. Returns NULL
 * on failure. */
OCTET_API octet_model* octet_duplicate(const octet_model* model);
/* Why the model runs slower on this machine: one line per cause, from index 0 on, then NULL. Valid
 * as long as the model. With open sizes, warnings are known once octet_bind or octet_run has
 * compiled the model. */
OCTET_API const char* octet_warning(const octet_model* model, size_t index);

/* Inputs and outputs are numbered as in the exported program. An input that the program does not
 * read has 0 bytes and the name "". */
OCTET_API size_t octet_input_count(const octet_model* model);
OCTET_API size_t octet_output_count(const octet_model* model);
OCTET_API octet_status octet_input(const octet_model* model, size_t index, octet_tensor_info* info);
OCTET_API octet_status octet_output(const octet_model* model, size_t index,
                                    octet_tensor_info* info);
/* Bytes of the arena for values between backends; allocated by octet_load, or for open sizes by
 * octet_bind (0 before). */
OCTET_API size_t octet_arena_bytes(const octet_model* model);

/* For a model with open sizes (exported with a dynamic batch, say): sets the sizes of the inputs
 * for the following octet_run calls. shapes[i]: address of the sizes of input i, as many as its
 * rank; may be NULL for an input with 0 bytes and the name "". New sizes are compiled; sizes that
 * are still compiled (octet_options.cached_shapes) cost little, and unchanged sizes cost nothing.
 * Before the first octet_bind, and possibly after a failure, the sizes of the exported example are
 * bound. */
OCTET_API octet_status octet_bind(octet_model* model, const int64_t* const* shapes);

/* Runs the model. inputs[i], outputs[i]: addresses of octet_input(i).bytes and
 * octet_output(i).bytes bytes, aligned to the element size. Outputs overlap neither each other nor
 * inputs. For OCTET_BOOL, any nonzero input byte is true, and outputs are 0 or 1. After the first
 * run, segments of XNNPACK and the reference backend allocate nothing. */
OCTET_API octet_status octet_run(octet_model* model, const void* const* inputs,
                                 void* const* outputs);

/* Writes the `rank` sizes of output `index` after octet_run to `shape`. They equal
 * octet_output(index).bound_shape, unless only the run decides a size (how many elements a mask
 * selects; -1 in octet_tensor_info.shape): then bound_shape has the maximum, and the output is the
 * first elements of its memory, row-major. */
OCTET_API octet_status octet_output_shape(const octet_model* model, size_t index, int64_t* shape);

/* Resets the states of a model to their values before the first octet_run. States are the buffers
 * that the exported program writes (caches, counters, running statistics): each octet_run reads
 * what the previous one left; a run that fails leaves them unchanged. Models do not share states;
 * those of an octet_duplicate start at their initial values. Does nothing without states. */
OCTET_API octet_status octet_reset_states(octet_model* model);

/* Copies the states of `from`, such as a language model's cache: the next octet_run of `to`
 * continues what `from` has run so far. Later runs of either do not affect the other. Both are of
 * one program, such as a model and its octet_duplicate, and neither is in octet_run. */
OCTET_API octet_status octet_copy_states(octet_model* to, const octet_model* from);

/* Rolls the cache of a language model back: keeps what is at positions 0 to count - 1, and resets
 * the rest, as if the model had not run at later positions. Fails, and changes nothing, if count is
 * negative or exceeds the positions of the cache, if the model has no cache, or if a state has no
 * row for each position (the cache of a sliding window; keep a copy of that with
 * octet_copy_states). */
OCTET_API octet_status octet_truncate_states(octet_model* model, int64_t count);

/* ---- Text with a language model: one whose inputs are token ids [1, n] and, if it keeps a cache,
 * their positions [n], and whose first output has scores [1, n, words]. ---- */

typedef struct octet_tokenizer octet_tokenizer;
/* Reads a tokenizer.json (byte pair encoding), or the tokenizer of a GGUF file. Returns NULL on
 * failure. Threads may share it. */
OCTET_API octet_tokenizer* octet_load_tokenizer(const char* path);
OCTET_API void octet_free_tokenizer(octet_tokenizer* tokenizer);

/* Zero-initialize, set `size` to sizeof(octet_generation), then set options as needed. */
typedef struct octet_generation {
  size_t size;
  int is_chat;        /* 1: the prompt is a message, to be answered by the model's chat template */
  size_t max_tokens;  /* 0: 128 */
  double temperature; /* divides scores before a random choice; 0: the best token each time */
  size_t top_k;       /* choose among this many best tokens; 0: all */
  double top_p;       /* choose among the fewest best tokens with this probability; 0: all */
  const uint64_t* seed; /* the same seed gives the same tokens; NULL: a random one */
} octet_generation;

/* Gets each token once it is generated. text: the complete characters that it adds, valid during
 * the call; a character of several tokens comes with the last one. Returns 0 to continue, 1 to
 * stop. */
typedef int (*octet_take_token)(void* user, int64_t id, const char* text);

/* Continues a prompt until a special token of the tokenizer. The cache of earlier calls is
 * overwritten. options may be NULL. Load the model with octet_options.logits_to_keep = 1, which
 * makes long prompts faster. */
OCTET_API octet_status octet_generate(octet_model* model, const octet_tokenizer* tokenizer,
                                      const char* prompt, const octet_generation* options,
                                      octet_take_token take, void* user);

/* Why the last call in this thread failed, or "". Valid until the next call in this thread. */
OCTET_API const char* octet_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
