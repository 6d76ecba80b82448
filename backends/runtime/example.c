/* The C interface in 30 lines: example [plugin.so] model.octet [input.raw...] writes the outputs'
 * bytes to the standard output. Inputs not given are zeros. */
#include <octet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char* what) { return fprintf(stderr, "example: %s\n", what), 1; }

int main(int argc, char** argv) {
  const char* end = argc < 2 ? NULL : strrchr(argv[1], '.');
  if (end != NULL && strcmp(end, ".so") == 0) {
    if (octet_load_plugin(argv[1])) return fail(octet_last_error());
    --argc, ++argv;
  }
  if (argc < 2) return fail("want [plugin.so] model.octet [input.raw...]");
  octet_model* model = octet_load(argv[1], NULL);
  if (model == NULL) return fail(octet_last_error());
  const size_t inputs = octet_input_count(model), outputs = octet_output_count(model);
  void** buffers = calloc(inputs + outputs, sizeof(void*));
  octet_tensor_info info = {.size = sizeof(info)};
  for (size_t i = 0; i < inputs + outputs; ++i) {
    if (i < inputs ? octet_input(model, i, &info) : octet_output(model, i - inputs, &info))
      return fail(octet_last_error());
    fprintf(stderr, "%s %s: %zu bytes\n", i < inputs ? "input" : "output", info.name, info.bytes);
    buffers[i] = calloc(1, info.bytes + 1);
    FILE* file = i < inputs && 2 + i < (size_t)argc ? fopen(argv[2 + i], "rb") : NULL;
    if (file != NULL && fread(buffers[i], 1, info.bytes, file) != info.bytes)
      return fail("an input file is too short");
    if (file != NULL) fclose(file);
  }
  if (octet_run(model, (const void* const*)buffers, buffers + inputs))
    return fail(octet_last_error());
  for (size_t i = 0; i < outputs; ++i) {
    octet_output(model, i, &info);
    fwrite(buffers[inputs + i], 1, info.bytes, stdout);
  }
  for (size_t i = 0; i < inputs + outputs; ++i) free(buffers[i]);
  free(buffers);
  octet_free(model);
  return 0;
}
