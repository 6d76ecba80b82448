/* run_acme libacme.so MODEL.octet: loads the NPU, runs a program once on zeros, and prints its
 * outputs. Links Octet's runtime alone. */
#include <octet.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what) { return fprintf(stderr, "run_acme: %s\n", what), 1; }

int main(int count, char** arguments) {
  if (count != 3) return fail("want libacme.so MODEL.octet");
  if (octet_load_plugin(arguments[1])) return fail(octet_last_error());
  octet_model* model = octet_load(arguments[2], NULL);
  if (model == NULL) return fail(octet_last_error());
  const size_t inputs = octet_input_count(model), outputs = octet_output_count(model);
  void** buffers = calloc(inputs + outputs, sizeof(void*));
  octet_tensor_info info = {.size = sizeof(info)};
  for (size_t i = 0; i < inputs + outputs; ++i) {
    if (i < inputs ? octet_input(model, i, &info) : octet_output(model, i - inputs, &info))
      return fail(octet_last_error());
    buffers[i] = calloc(1, info.bytes + 1);
  }
  if (octet_run(model, (const void* const*)buffers, buffers + inputs))
    return fail(octet_last_error());
  for (size_t i = 0; i < outputs; ++i) {
    octet_output(model, i, &info);
    printf("%s: %zu bytes\n", info.name, info.bytes);
  }
  for (size_t i = 0; i < inputs + outputs; ++i) free(buffers[i]);
  free(buffers);
  octet_free(model);
  return 0;
}
