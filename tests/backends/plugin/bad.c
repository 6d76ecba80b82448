/* A plug-in that makes the mistake that OCTET_BAD_PLUGIN in the environment names. */
#define _POSIX_C_SOURCE 200809L
#include <octet_plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int makes(const char* mistake) {
  const char* wanted = getenv("OCTET_BAD_PLUGIN");
  return wanted != NULL && strcmp(wanted, mistake) == 0;
}

struct octet_plugin_segment {
  int unused;
};

static octet_plugin_status mistaken(const char* where, octet_plugin_status other, char* message,
                                    size_t capacity) {
  char name[64];
  const char* const ways[] = {"status", "silent", "lines", "unterminated"};
  for (int i = 0; i < 4; ++i) {
    snprintf(name, sizeof(name), "%s_%s", where, ways[i]);
    if (!makes(name)) continue;
    if (i == 0) return (octet_plugin_status)77;
    if (i == 2) snprintf(message, capacity, "out of SRAM\nand of luck");
    if (i == 3) memset(message, 'x', capacity);
    return OCTET_PLUGIN_FAILED;
  }
  return other;
}

static octet_plugin_status accepts(const octet_plugin_program* program, char* message,
                                   size_t capacity) {
  (void)program;
  return mistaken("accepts", makes("accepts_no_reason") ? OCTET_PLUGIN_REFUSED : OCTET_PLUGIN_OK,
                  message, capacity);
}

static octet_plugin_status compile(const octet_plugin_program* program, int threads,
                                   octet_plugin_segment** segment, char* message, size_t capacity) {
  static octet_plugin_segment only;
  (void)program;
  (void)threads;
  *segment = makes("compile_null") ? NULL : &only;
  return mistaken("compile", OCTET_PLUGIN_OK, message, capacity);
}

static octet_plugin_status run(octet_plugin_segment* segment, const void* const* inputs,
                               void* const* outputs, char* message, size_t capacity) {
  (void)segment;
  (void)inputs;
  (void)outputs;
  return mistaken("run", OCTET_PLUGIN_OK, message, capacity);
}

static void destroy(octet_plugin_segment* segment) { (void)segment; }

static const octet_plugin_kernel* kernel(octet_plugin_segment* segment, size_t index) {
  static const octet_plugin_kernel no_names;
  (void)segment;
  return index == 0 || makes("endless_kernels") ? &no_names : NULL;
}

static void spoil(octet_plugin* table) {
  static char long_name[200];
  static const octet_plugin_version no_name = {NULL, "1.0"};
  memset(long_name, 'n', sizeof(long_name) - 1);
  if (makes("small")) table->size = 8;
  if (makes("huge")) table->size = (size_t)-1;
  if (makes("interface")) table->interface_version = 99;
  if (makes("no_name")) table->name = NULL;
  if (makes("empty_name")) table->name = "";
  if (makes("long_name")) table->name = long_name;
  if (makes("odd_name")) table->name = "a b";
  if (makes("garbage_name")) table->name = "\xff\x1b[2J";
  if (makes("taken")) table->name = "reference";
  if (makes("reserved")) table->name = "control";
  if (makes("no_version")) table->version = NULL;
  if (makes("empty_version")) table->version = "";
  if (makes("no_accepts")) table->accepts = NULL;
  if (makes("no_compile")) table->compile = NULL;
  if (makes("no_run")) table->run = NULL;
  if (makes("no_destroy")) table->destroy = NULL;
  if (makes("null_list")) table->tolerance_count = 3;
  if (makes("endless_list")) table->kind_count = (size_t)-1;
  if (makes("null_in_list")) table->version_count = 1, table->versions = &no_name;
}

static int output_shape(octet_plugin_segment* segment, size_t output, int64_t* sizes, int rank) {
  (void)segment;
  (void)output;
  (void)rank;
  sizes[0] = 0;
  return 1;
}

/* "old": a table that ends before what is not required. "first": one of OCTET_PLUGIN_MINOR 0.
 * "new": one that is longer than this header's. What follows an older table is garbage. */
const octet_plugin* octet_plugin_entry(uint32_t host_interface, char* message, size_t capacity) {
  static struct {
    octet_plugin table;
    char later[64];
  } all;
  (void)host_interface;
  if (makes("null")) return NULL;
  if (makes("null_with_message")) return snprintf(message, capacity, "there is no NPU\nhere"), NULL;
  memset(&all, makes("old") ? 0xee : 0, sizeof(all));
  octet_plugin* table = &all.table;
  table->size = makes("old")     ? offsetof(octet_plugin, reads_compact)
                : makes("first") ? offsetof(octet_plugin, macs_per_segment)
                : makes("new")   ? sizeof(all)
                                 : sizeof(*table);
  if (makes("first")) memset(&table->macs_per_segment, 0xee, sizeof(*table) - table->size);
  table->interface_version = OCTET_PLUGIN_INTERFACE;
  table->name = makes("old") ? "old" : makes("first") ? "first" : makes("new") ? "new" : "bad";
  table->version = "0.1";
  table->accepts = accepts;
  table->compile = compile;
  table->run = run;
  table->destroy = destroy;
  if (!makes("old")) table->kernel = kernel;
  if (!makes("old") && !makes("first")) {
    table->macs_per_segment = 7;
    table->output_shape = output_shape;
  }
  spoil(table);
  return table;
}
