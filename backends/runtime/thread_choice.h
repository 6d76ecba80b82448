// Whether the runs of a session use its threads or the caller's alone.
//
// A loop on several threads ends when the last of them does. Where other processes keep the CPUs
// busy, a thread without a CPU holds up all: a run then takes as long as the scheduler's turns do,
// a thousand times what one thread needs. So a session that starts while other processes use the
// CPUs, or whose runs are held up, uses one thread, and returns to its threads when the CPUs are
// free again.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/cpus.h"

namespace octet {

struct Program;

// Whether threads would cost such a program more than they save, as far as its file tells how much
// work it is: at fixed sizes.
bool is_too_small_for_threads(const Program& program);

// Whether other processes leave fewer CPUs of the machine than so many threads need, right now.
bool are_cpus_taken(int threads);

class ThreadChoice {
 public:
  // cpu: of the calling thread. Starts with one thread when that thread waited for much of its
  // life, or when are_taken() stays true for some milliseconds. Empty: never.
  explicit ThreadChoice(const CpuTime& cpu, std::function<bool()> are_taken = {});

  bool uses_threads() const { return uses_threads_; }

  // Compiling for another count of threads takes so many seconds: what runs must have lost before
  // that pays.
  void set_price(double seconds);
  // Before a run, when is_due(): `now` in seconds of a clock that never goes back.
  bool is_due(double now) const { return now >= next_look_; }
  void look(double now, const void* thread, const CpuTime& cpu);
  // After a run that ended at `now`.
  void note_run(double now, double taken);
  // Of other sizes than the runs before.
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
  const void* thread_ = nullptr;  // that looked last
  CpuTime before_;                // at that look
  // On threads: the least time of a run, what runs lost against it, and the runs since they lose.
  double best_ = 0;
  double lost_ = 0;
  Runs late_;
  double since_ = 0;
  // On one: the runs of the last period, how long it takes, and when it ends.
  Runs alone_;
  double period_;
  double until_ = 0;
};

}  // namespace octet
