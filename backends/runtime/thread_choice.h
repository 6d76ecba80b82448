// Decides whether runs of a session use all its threads or only the caller's.
//
// A parallel loop ends when its last thread does. When other processes keep the CPUs busy, one
// thread without a CPU delays all others until the scheduler runs it, which may take a thousand
// times as long as the loop on one thread. So a session uses one thread if other processes use the
// CPUs when it starts, or when its runs are delayed, and returns to all threads when the CPUs are
// free again.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/cpus.h"

namespace octet {

struct Program;

// Whether threads would cost this program more than they save, judging by the amount of work in the
// file. Requires fixed sizes.
bool is_too_small_for_threads(const Program& program);

// Whether other processes leave fewer CPUs than `threads` at the moment.
bool are_cpus_taken(int threads);

class ThreadChoice {
 public:
  // cpu: of the calling thread. Starts with one thread if that thread spent much of its life
  // waiting, or if are_taken() stays true for some milliseconds. Empty are_taken: always starts
  // with all threads.
  explicit ThreadChoice(const CpuTime& cpu, std::function<bool()> are_taken = {});

  bool uses_threads() const { return uses_threads_; }

  // Sets the cost of compiling for another thread count. Runs must lose that much time before
  // switching pays.
  void set_price(double seconds);
  // Call before a run when is_due(). now: seconds of a monotonic clock.
  bool is_due(double now) const { return now >= next_look_; }
  void look(double now, const void* thread, const CpuTime& cpu);
  // Call after a run that ended at `now`.
  void note_run(double now, double taken);
  // Call when sizes change: earlier run times do not compare.
  void forget_runs();

 private:
  struct Runs {
    double seconds = 0;
    int64_t count = 0;
    double mean() const { return seconds / static_cast<double>(count); }
  };

  void leave_threads(double now);
  void return_to_threads(double now);
  bool alone_is_slower() const;

  std::function<bool()> are_taken_;
  bool uses_threads_;
  double price_;
  double next_look_ = 0;
  const void* thread_ = nullptr;  // the thread that called look() last
  CpuTime before_;                // its CPU time then
  // With all threads: the shortest run, the time that runs lost against it, and the slow runs.
  double best_ = 0;
  double lost_ = 0;
  Runs late_;
  double since_ = 0;
  // With one thread: the runs of the current period, its length, and its end.
  Runs alone_;
  double period_;
  double until_ = 0;
};

}  // namespace octet
