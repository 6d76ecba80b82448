// Free of torch.
#pragma once

#include <filesystem>

namespace octet {

// CPUs that this process may keep busy: its affinity, and at most the quota of its control groups,
// rounded. At least 1; 1 on systems other than Linux.
int usable_cpus();

// How many threads to take where nobody says how many: usable_cpus(), shared among `streams`
// programs that run at the same time, and at most the first number of OMP_NUM_THREADS. At least 1.
int default_threads(int streams = 1);

// CPUs' worth of time that the control groups of a process leave it, the least of its group's and
// of those above: cpu.max of version 2, cpu.cfs_quota_us and cpu.cfs_period_us of version 1. 0:
// there is no limit. memberships: /proc/self/cgroup; root: where the groups are mounted.
double cpu_quota(const std::filesystem::path& memberships, const std::filesystem::path& root);

// What the scheduler counts of a thread, and what a fork does to threads. Free of torch.

// Seconds since the thread started.
struct CpuTime {
  double ran = 0;
  double waited = 0;  // ready to run, without a CPU: others had it, or the quota was used up
};

// Of the calling thread; zeros where the system does not tell.
CpuTime cpu_time();

// Whether this process is the child of a process that had called this before. A child has none of
// its parent's threads: pools that the parent made wait for them forever.
bool is_forked_child();

}  // namespace octet
