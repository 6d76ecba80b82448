/* These functions take the place of the C library's, and call those by other names, or the
 * kernel. */
#define _GNU_SOURCE
#include "tests/faults/fault_shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

static fault_kind chosen_kind; /* by the environment */
static long chosen_nth;
static int chosen_all;
static int report = -1; /* descriptor */
static uintptr_t program_begin, program_end;

static _Atomic fault_kind kind = FAULT_NONE;
static _Atomic long calls, live;
static long failing;
static int fails_all;

static void tell(const char* what, long number) {
  void* callers[64];
  char line[64];
  if (report < 0) return;
  const int length = snprintf(line, sizeof(line), "%s %ld\n", what, number);
  syscall(SYS_write, report, line, (size_t)length);
  if (*what != 'c') backtrace_symbols_fd(callers, backtrace(callers, 64), report);
}

/* Whether this call of the kind is to fail. */
static int fails(fault_kind of, int error) {
  if (atomic_load_explicit(&kind, memory_order_relaxed) != of) return 0;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  if (failing == 0 || number < failing || (number > failing && !fails_all)) return 0;
  if (number == failing && report >= 0) {
    atomic_store(&kind, FAULT_NONE); /* not within the report */
    tell("hit", number);
    atomic_store(&kind, of);
  }
  errno = error;
  return 1;
}

void fault_begin(fault_kind of, long nth, int all) {
  atomic_store(&calls, 0);
  failing = nth;
  fails_all = all;
  atomic_store(&kind, of);
}

long fault_end(void) {
  atomic_store(&kind, FAULT_NONE);
  return atomic_load(&calls);
}

void fault_report_to(int file) {
  void* callers[4];
  backtrace(callers, 4); /* the first call takes memory */
  report = file;
}

long fault_live_blocks(void) { return atomic_load(&live); }

/* ---- memory */

static void* counted(void* block) {
  if (block != NULL) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
  return block;
}

void* malloc(size_t size) {
  return fails(FAULT_ALLOC, ENOMEM) ? NULL : counted(__libc_malloc(size));
}

void* calloc(size_t count, size_t size) {
  return fails(FAULT_ALLOC, ENOMEM) ? NULL : counted(__libc_calloc(count, size));
}

void* realloc(void* block, size_t size) {
  if (block == NULL) return malloc(size);
  if (size == 0) return free(block), NULL;
  return fails(FAULT_ALLOC, ENOMEM) ? NULL : __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
  return fails(FAULT_ALLOC, ENOMEM) ? NULL : counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  void* taken = memalign(alignment, size);
  if (taken == NULL) return ENOMEM;
  *block = taken;
  return 0;
}

void free(void* block) {
  if (block != NULL) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
  __libc_free(block);
}

/* operator new(size_t): only to tell who calls. */
void* _Znwm(size_t size) {
  static void* (*next)(size_t);
  const uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  if (next == NULL) next = (void* (*)(size_t))dlsym(RTLD_NEXT, "_Znwm");
  if (caller < program_begin || caller >= program_end || !fails(FAULT_OWN, ENOMEM))
    return next(size);
  /* std::bad_alloc, as the next one throws it of a size that no machine has */
  return next(SIZE_MAX / 2);
}

void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  if (fails(FAULT_MAP, ENOMEM)) return MAP_FAILED;
  return (void*)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

void* mmap64(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  return mmap(address, size, protection, flags, file, offset);
}

/* ---- files */

static int is_regular(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

static int fails_to_write(int file) {
  return atomic_load_explicit(&kind, memory_order_relaxed) == FAULT_WRITE && is_regular(file) &&
         fails(FAULT_WRITE, ENOSPC);
}

ssize_t write(int file, const void* bytes, size_t size) {
  return fails_to_write(file) ? -1 : syscall(SYS_write, file, bytes, size);
}

ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  return fails_to_write(file) ? -1 : syscall(SYS_pwrite64, file, bytes, size, offset);
}

ssize_t pwrite64(int file, const void* bytes, size_t size, off_t offset) {
  return pwrite(file, bytes, size, offset);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  return fails_to_write(file) ? -1 : syscall(SYS_writev, file, parts, count);
}

int fsync(int file) { return fails(FAULT_SYNC, EIO) ? -1 : (int)syscall(SYS_fsync, file); }
int fdatasync(int file) { return fails(FAULT_SYNC, EIO) ? -1 : (int)syscall(SYS_fdatasync, file); }

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (fails(FAULT_RENAME, EIO)) return -1;
  return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renameat2(from_folder, from, to_folder, to, 0);
}

int rename(const char* from, const char* to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* ---- the process */

/* Libraries that were opened with RTLD_DEEPBIND take memory from the C library, behind the shim.
 * oneDNN may, as it does not survive that a malloc fails (backends/runtime/octet.h), and so may all
 * where LibTorch has a oneDNN and an XNNPACK of its own, which the flag keeps apart. */
void* dlopen(const char* file, int flags) {
  static void* (*next)(const char*, int);
  if (next == NULL) next = (void* (*)(const char*, int))dlsym(RTLD_NEXT, "dlopen");
  if (file != NULL && strstr(file, "dnnl") == NULL && dlsym(RTLD_DEFAULT, "dnnl_version") == NULL)
    flags &= ~RTLD_DEEPBIND;
  return next(file, flags);
}

static void crash(int number) {
  fault_end();
  tell("signal", number);
  signal(number, SIG_DFL);
  raise(number);
}

static int (*real_main)(int, char**, char**);

static int counted_main(int argc, char** argv, char** environment) {
  fault_begin(chosen_kind, chosen_nth, chosen_all);
  const int code = real_main(argc, argv, environment);
  tell("calls", fault_end());
  return code;
}

static void find_program(void) {
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "r");
  char name[400] = "", path[400];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (maps == NULL || length < 0) return;
  path[length] = '\0';
  while (fgets(line, sizeof(line), maps) != NULL) {
    unsigned long begin, end;
    *name = '\0';
    if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %399s", &begin, &end, name) < 2) continue;
    if (strcmp(name, path) != 0) continue;
    if (program_begin == 0) program_begin = begin;
    program_end = end;
  }
  fclose(maps);
}

static void read_environment(void) {
  static const char* const kinds[] = {"", "alloc", "own", "map", "write", "sync", "rename"};
  const char* wanted = getenv("OCTET_FAULT");
  const char* file = getenv("OCTET_FAULT_REPORT");
  const char* colon = wanted == NULL ? NULL : strchr(wanted, ':');
  void* callers[4];
  if (file == NULL) return;
  report = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  find_program();
  backtrace(callers, 4); /* the first call takes memory */
  for (const int* number = (const int[]){SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, 0}; *number != 0;
       ++number)
    signal(*number, crash);
  if (colon == NULL) return;
  for (int i = 1; i < (int)(sizeof(kinds) / sizeof(*kinds)); ++i)
    if (strncmp(wanted, kinds[i], (size_t)(colon - wanted)) == 0 &&
        kinds[i][colon - wanted] == '\0')
      chosen_kind = (fault_kind)i;
  chosen_nth = atol(colon + 1);
  chosen_all = wanted[strlen(wanted) - 1] == '+';
}

typedef int (*main_function)(int, char**, char**);

int __libc_start_main(main_function main, int argc, char** argv, void (*begin)(void),
                      void (*end)(void), void (*linker_end)(void), void* stack_end) {
  typedef int (*start_function)(main_function, int, char**, void (*)(void), void (*)(void),
                                void (*)(void), void*);
  const start_function next = (start_function)dlsym(RTLD_NEXT, "__libc_start_main");
  read_environment();
  if (chosen_kind != FAULT_NONE) {
    real_main = main;
    main = counted_main;
  }
  return next(main, argc, argv, begin, end, linker_end, stack_end);
}
