// Asks the system about CPUs: how many this process may use, how much time a thread got, and
// whether a fork has stopped the threads. Free of torch.
#pragma once

#include <filesystem>

namespace octet {

// Number of CPUs that this process may keep busy: its affinity, limited by the rounded quota of its
// control groups. At least 1; 1 on systems other than Linux.
int usable_cpus();

// The default number of threads: usable_cpus() divided among `streams` programs that run at the
// same time, but at most the first number of OMP_NUM_THREADS. At least 1.
int default_threads(int streams = 1);

// The CPU quota of a process in CPUs: the least of its control group's and the groups above it
// (cpu.max of version 2, cpu.cfs_quota_us and cpu.cfs_period_us of version 1). 0: unlimited.
// memberships: /proc/self/cgroup; root: where the groups are mounted.
double cpu_quota(const std::filesystem::path& memberships, const std::filesystem::path& root);

// The scheduler's account of a thread, in seconds since it started.
struct CpuTime {
  double ran = 0;
  double waited = 0;  // ready to run but without a CPU: others had it, or the quota was used up
};

// The time of the calling thread; zeros when the system does not provide it.
CpuTime cpu_time();

// How many threads of other processes run or wait for a CPU at this moment, on the whole machine; 0
// when the system does not provide it.
int threads_running_elsewhere();

// Whether this process was forked from one that had called this before. A forked child has none of
// its parent's threads, so thread pools made by the parent would wait for them forever.
bool is_forked_child();

}  // namespace octet
