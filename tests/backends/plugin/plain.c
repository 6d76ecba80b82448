/* A plug-in in C: adds float tensors of the same shape. */
#include <octet_plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct octet_plugin_segment {
  const octet_plugin_program* program;
  float** memory; /* by tensor; NULL for constants, and for what `run` gets */
  const float** values;
};

static const octet_plugin_attribute* find(const octet_plugin_op* op, const char* name) {
  for (size_t i = 0; i < op->attribute_count; ++i)
    if (strcmp(op->attributes[i].name, name) == 0) return &op->attributes[i];
  return NULL;
}

static int same_shape(const octet_plugin_tensor* a, const octet_plugin_tensor* b) {
  return a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof(int64_t)) == 0);
}

static octet_plugin_status accepts(const octet_plugin_program* program, char* message,
                                   size_t capacity) {
  const octet_plugin_op* op = program->ops[0];
  if (strcmp(op->kind, "add") != 0)
    return snprintf(message, capacity, "it has no %s", op->kind), OCTET_PLUGIN_REFUSED;
  for (size_t i = 0; i < op->attribute_count; ++i)
    if (strcmp(op->attributes[i].name, "alpha") != 0)
      return snprintf(message, capacity, "it does not know %s", op->attributes[i].name),
             OCTET_PLUGIN_REFUSED;
  const octet_plugin_tensor* y = program->tensors[op->outputs[0]];
  for (int i = 0; i < 2; ++i) {
    const octet_plugin_tensor* x = program->tensors[op->inputs[i]];
    if (x->dtype != OCTET_FLOAT32 || y->dtype != OCTET_FLOAT32)
      return snprintf(message, capacity, "%s is not float32", x->name), OCTET_PLUGIN_REFUSED;
    if (!same_shape(x, y))
      return snprintf(message, capacity, "%s is broadcast", x->name), OCTET_PLUGIN_REFUSED;
  }
  return OCTET_PLUGIN_OK;
}

static void destroy(octet_plugin_segment* segment) {
  for (size_t i = 0; i < segment->program->tensor_count; ++i) free(segment->memory[i]);
  free(segment->memory);
  free(segment->values);
  free(segment);
}

static octet_plugin_status compile(const octet_plugin_program* program, int threads,
                                   octet_plugin_segment** segment, char* message, size_t capacity) {
  (void)threads;
  (void)message;
  (void)capacity;
  octet_plugin_segment* made = calloc(1, sizeof(*made));
  made->program = program;
  made->memory = calloc(program->tensor_count, sizeof(*made->memory));
  made->values = calloc(program->tensor_count, sizeof(*made->values));
  for (size_t i = 0; i < program->tensor_count; ++i) {
    const octet_plugin_tensor* tensor = program->tensors[i];
    if (tensor->is_constant)
      made->values[i] = tensor->data;
    else
      made->values[i] = made->memory[i] = malloc(tensor->bytes + 1);
  }
  *segment = made;
  return OCTET_PLUGIN_OK;
}

static octet_plugin_status run(octet_plugin_segment* segment, const void* const* inputs,
                               void* const* outputs, char* message, size_t capacity) {
  (void)message;
  (void)capacity;
  const octet_plugin_program* program = segment->program;
  for (size_t i = 0; i < program->input_count; ++i) segment->values[program->inputs[i]] = inputs[i];
  for (size_t i = 0; i < program->op_count; ++i) {
    const octet_plugin_op* op = program->ops[i];
    const octet_plugin_attribute* alpha = find(op, "alpha");
    const double factor = alpha == NULL                         ? 1
                          : alpha->type == OCTET_PLUGIN_INTEGER ? (double)alpha->integer
                                                                : alpha->real;
    const float *a = segment->values[op->inputs[0]], *b = segment->values[op->inputs[1]];
    float* y = segment->memory[op->outputs[0]];
    const size_t count = program->tensors[op->outputs[0]]->bytes / sizeof(float);
    for (size_t j = 0; j < count; ++j) y[j] = (float)(a[j] + factor * b[j]);
  }
  for (size_t i = 0; i < program->output_count; ++i)
    memcpy(outputs[i], segment->values[program->outputs[i]],
           program->tensors[program->outputs[i]]->bytes);
  return OCTET_PLUGIN_OK;
}

const octet_plugin* octet_plugin_entry(uint32_t host_interface, char* message, size_t capacity) {
  static const char* const kinds[] = {"add"};
  static const octet_plugin table = {.size = sizeof(table),
                                     .interface_version = OCTET_PLUGIN_INTERFACE,
                                     .name = "plain",
                                     .version = "1.2.0",
                                     .accepts = accepts,
                                     .compile = compile,
                                     .run = run,
                                     .destroy = destroy,
                                     .kind_count = 1,
                                     .kinds = kinds};
  if (host_interface >= OCTET_PLUGIN_INTERFACE) return &table;
  snprintf(message, capacity, "wants a newer Octet");
  return NULL;
}
