/* Latency of an .octet file on the runtime alone, without LibTorch or Python, by its C interface.
 *
 * octet_runtime_bench FILE [--threads N] [--seconds S] [--cache DIR] [--input RAW]... [--output
 * RAW]
 *
 * RAW: a tensor's bytes in row-major order, an --input for each of the program's in order (zeros
 * when none is given); --output takes the first output's. Prints one JSON object: the median of
 * single runs, the time from opening the file to the first output, memory before loading and at
 * its peak, and the shape of the first output. */
#define _POSIX_C_SOURCE 200809L

#include <octet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TENSORS = 64, MOST_RUNS = 20000, LEAST_RUNS = 3, WARM_UPS = 4 };

typedef struct {
  const char* program;
  const char* inputs[MOST_TENSORS];
  size_t input_count;
  const char* output;
  int threads;
  const char* cache;
  double seconds;
} arguments;

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* The most memory that this program has had. getrusage would count that of the process which
 * started it, too. */
static double peak_mb(void) {
  char line[256];
  long kilobytes = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
  if (file != NULL) fclose(file);
  return (double)kilobytes / 1024.0;
}

static void fail(const char* subject, const char* message) {
  fprintf(stderr, "runtime_bench: %s: %s\n", subject, message);
  exit(1);
}

static arguments parse(int argc, char** argv) {
  arguments result = {.threads = 1, .seconds = 1};
  for (int i = 1; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strncmp(argv[i], "--", 2) != 0) {
      result.program = argv[i];
      continue;
    }
    ++i;
    if (strcmp(argv[i - 1], "--threads") == 0) {
      result.threads = atoi(value);
    } else if (strcmp(argv[i - 1], "--cache") == 0) {
      result.cache = value;
    } else if (strcmp(argv[i - 1], "--seconds") == 0) {
      result.seconds = atof(value);
    } else if (strcmp(argv[i - 1], "--output") == 0) {
      result.output = value;
    } else if (strcmp(argv[i - 1], "--input") == 0 && result.input_count < MOST_TENSORS) {
      result.inputs[result.input_count++] = value;
    } else {
      fail(argv[i - 1], "unknown option, want --threads, --seconds, --cache, --input or --output");
    }
  }
  if (result.program == NULL)
    fail("arguments",
         "no program, want FILE [--threads N] [--seconds S] [--cache DIR] [--input RAW]... "
         "[--output RAW]");
  return result;
}

static void* allocate(size_t bytes) {
  void* memory = calloc(bytes > 0 ? bytes : 1, 1);
  if (memory == NULL) fail("memory", "used up");
  return memory;
}

static void* read_raw(const char* path, size_t bytes) {
  void* memory = allocate(bytes);
  FILE* file = fopen(path, "rb");
  if (file == NULL) fail(path, "cannot be read");
  if (fread(memory, 1, bytes, file) != bytes || fgetc(file) != EOF)
    fail(path, "is not as large as the program's input");
  fclose(file);
  return memory;
}

static void write_raw(const char* path, const void* memory, size_t bytes) {
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(memory, 1, bytes, file) != bytes || fclose(file) != 0)
    fail(path, "cannot be written");
}

static int ascending(const void* a, const void* b) {
  return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b);
}

static void run(octet_model* model, const void* const* inputs, void* const* outputs) {
  if (octet_run(model, inputs, outputs) != OCTET_OK) fail("run", octet_last_error());
}

static void print_shape(octet_model* model) {
  octet_tensor_info info = {.size = sizeof info};
  octet_output(model, 0, &info);
  for (int i = 0; i < info.rank; ++i)
    printf("%s%lld", i == 0 ? "" : ", ", (long long)info.shape[i]);
}

/* The median of single runs, in milliseconds. */
static double measure(octet_model* model, const void* const* inputs, void* const* outputs,
                      double seconds) {
  static double times[MOST_RUNS];
  int count = 0;
  for (int i = 0; i < WARM_UPS; ++i) run(model, inputs, outputs);
  const double end = now_ms() + 1e3 * seconds;
  while (count < MOST_RUNS && (count < LEAST_RUNS || now_ms() < end)) {
    const double start = now_ms();
    run(model, inputs, outputs);
    times[count++] = now_ms() - start;
  }
  qsort(times, (size_t)count, sizeof times[0], ascending);
  return times[count / 2];
}

int main(int argc, char** argv) {
  const arguments given = parse(argc, argv);
  const void* inputs[MOST_TENSORS];
  void* outputs[MOST_TENSORS];
  octet_tensor_info info = {.size = sizeof info};
  const octet_options options = {
      .size = sizeof options, .threads = given.threads, .cache_folder = given.cache};
  const double before_mb = peak_mb();
  const double start = now_ms();
  octet_model* model = octet_load(given.program, &options);
  if (model == NULL) fail("load", octet_last_error());
  const size_t input_count = octet_input_count(model), output_count = octet_output_count(model);
  if (input_count > MOST_TENSORS || output_count > MOST_TENSORS)
    fail(given.program, "has more than 64 inputs or outputs");
  if (given.input_count != 0 && given.input_count != input_count)
    fail("--input", "want one for each input of the program, or none");
  size_t output_bytes = 0;
  for (size_t i = 0; i < output_count; ++i) {
    octet_output(model, i, &info);
    outputs[i] = allocate(info.bytes);
    if (i == 0) output_bytes = info.bytes;
  }
  for (size_t i = 0; i < input_count; ++i) {
    octet_input(model, i, &info);
    inputs[i] =
        given.input_count == 0 ? allocate(info.bytes) : read_raw(given.inputs[i], info.bytes);
  }
  run(model, inputs, outputs);
  const double load_ms = now_ms() - start;
  if (given.output != NULL) write_raw(given.output, outputs[0], output_bytes);
  const double median_ms = measure(model, inputs, outputs, given.seconds);
  printf(
      "{\"median_ms\": %.5f, \"load_ms\": %.3f, \"start_rss_mb\": %.1f, \"peak_rss_mb\": %.1f, "
      "\"shape\": [",
      median_ms, load_ms, before_mb, peak_mb());
  print_shape(model);
  printf("]}\n");
  octet_free(model);
  return 0;
}
