// What the scheduler counts of a thread, and what a fork does to threads. Free of torch.
#pragma once

namespace octet {

// Seconds since the thread started.
struct CpuTime {
  double ran = 0;
  double waited = 0;  // ready to run, without a CPU: others had it, or the quota was used up
};

// Of the calling thread; zeros where the system does not tell.
CpuTime cpu_time();

// How many threads of other processes run or wait for a CPU at this moment, on the whole machine; 0
// where the system does not tell.
int threads_running_elsewhere();

// Whether this process is the child of a process that had called this before. A child has none of
// its parent's threads: pools that the parent made wait for them forever.
bool is_forked_child();

}  // namespace octet
