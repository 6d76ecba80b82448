/* Makes calls of one kind fail, as a full disk or a lack of memory would: the n-th, or all from the
 * n-th on. Programs that are linked to the shim use the functions below. For others it is preloaded
 * and reads the environment:
 *   LD_PRELOAD=libfault_shim.so OCTET_FAULT=alloc:17 OCTET_FAULT_REPORT=FILE command...
 * OCTET_FAULT: a kind (alloc, own, map, write, sync, rename), the number of the call, and a + for
 * all later ones too. Calls are counted from the start of main to its end. FILE gets a line
 * "calls N" at the end of main, "hit N" and the callers where the call failed, and "signal N" and
 * the callers where the process crashed. */
#ifndef OCTET_FAULT_SHIM_H
#define OCTET_FAULT_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fault_kind {
  FAULT_NONE,
  FAULT_ALLOC, /* malloc, calloc and the like, and with them operator new: ENOMEM */
  FAULT_OWN,   /* operator new called by the program itself, not by its libraries */
  FAULT_MAP,   /* mmap: ENOMEM */
  FAULT_WRITE, /* write, pwrite, writev to a regular file: ENOSPC */
  FAULT_SYNC,  /* fsync, fdatasync: EIO */
  FAULT_RENAME /* rename, renameat, renameat2: EIO */
} fault_kind;

/* Counts calls of the kind from now on; the n-th fails, and with `all` the later ones too. 0: none
 * fails. */
void fault_begin(fault_kind kind, long nth, int all);
/* Stops counting; returns the number of calls. */
long fault_end(void);
/* Writes the report to this open file instead of OCTET_FAULT_REPORT. -1: nowhere. */
void fault_report_to(int file);
/* The number of blocks of memory that are allocated and not freed. */
long fault_live_blocks(void);

#ifdef __cplusplus
}
#endif

#endif
