/* Makes one call of a kind fail, as a full disk or a machine without memory would: the n-th, or all
 * from the n-th on. For programs that are linked to the shim, by the functions below; for others it
 * is preloaded and reads the environment:
 *   LD_PRELOAD=libfault_shim.so OCTET_FAULT=alloc:17 OCTET_FAULT_REPORT=FILE command...
 * OCTET_FAULT: a kind (alloc, own, map, write, sync, rename), the number of the call, a + behind it
 * for all that follow too. Calls are counted from the start of main to its end. FILE gets a line
 * "calls N" at the end of main, "hit N" and the callers where the call failed, and "signal N" and
 * the callers where the process crashed. */
#ifndef OCTET_FAULT_SHIM_H
#define OCTET_FAULT_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fault_kind {
  FAULT_NONE,
  FAULT_ALLOC, /* malloc and its kin, and with them operator new: ENOMEM */
  FAULT_OWN,   /* those of operator new that the program itself calls, not a library of it */
  FAULT_MAP,   /* mmap: ENOMEM */
  FAULT_WRITE, /* write, pwrite, writev to a regular file: ENOSPC */
  FAULT_SYNC,  /* fsync, fdatasync: EIO */
  FAULT_RENAME /* rename, renameat, renameat2: EIO */
} fault_kind;

/* Counts calls of the kind from now on; the nth fails, and with `all` those behind it too. 0: none
 * fails. */
void fault_begin(fault_kind kind, long nth, int all);
/* Stops that; returns how many calls there were. */
long fault_end(void);
/* Where the report goes instead of OCTET_FAULT_REPORT: an open file. -1: nowhere. */
void fault_report_to(int file);
/* How many blocks of memory are taken and not given back. */
long fault_live_blocks(void);

#ifdef __cplusplus
}
#endif

#endif
