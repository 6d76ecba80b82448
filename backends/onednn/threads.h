// The thread count that a segment was compiled for.
#pragma once

#include <omp.h>

namespace octet::onednn {

// Sets OpenMP's thread count and puts the caller's back. oneDNN's primitives take the count of the
// moment when they are made.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    if (before_ != threads) omp_set_num_threads(threads);
    changed_ = before_ != threads;
  }
  ~ThreadCount() {
    if (changed_) omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

}  // namespace octet::onednn
