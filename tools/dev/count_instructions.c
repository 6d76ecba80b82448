/* A plug-in of QEMU (version 1 of its interface) that counts the instructions of an emulated
 * program and prints them to the standard error when it ends. Built and used by
 * tools/dev/aarch64.sh --counts. Debian's qemu-user has no header, so the functions are declared
 * here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb; /* a block of translated instructions */
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*translated)(uint64_t id,
                                                                           struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int operation, void* counter,
                                              uint64_t summand);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*ended)(uint64_t id, void* context),
                                    void* context);

EXPORT int qemu_plugin_version = 1;

static uint64_t instructions;

static void count_block(uint64_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &instructions, qemu_plugin_tb_n_insns(block));
}

static void print_count(uint64_t id, void* context) {
  (void)id;
  (void)context;
  fprintf(stderr, "%" PRIu64 "\n", instructions);
}

EXPORT int qemu_plugin_install(uint64_t id, const void* information, int count, char** arguments) {
  (void)information;
  (void)count;
  (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_atexit_cb(id, print_count, NULL);
  return 0;
}
