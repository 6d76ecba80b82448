// The processes that one call of mpirun started, which share a command's work. Without mpirun there
// is one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace octet {

// Whether mpirun or a batch system's launcher started this process as one of several: their
// environment variables say so.
bool is_one_of_several();

// Thrown by check_others. No Error: the process that failed has the message.
struct OtherFailed {};

class Processes {
 public:
  // Joins the others. Throws Error("mpi", ...) when there are others and Octet was built without
  // MPI.
  Processes();
  ~Processes();  // leaves; waits for the others
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  size_t rank() const { return rank_; }  // of this process, from 0
  size_t count() const { return count_; }

  // Throws OtherFailed when the work of another process has failed. Costs microseconds; called now
  // and then by work that may be in vain.
  void check_others();

  // Runs `work` in every process. Process 0 gets the texts of all, in order of rank; the others get
  // nothing. When work threw in some, process 0 throws the error of the first of them, with its
  // rank, and the others return. All processes must call this, once.
  std::vector<std::string> gather(const std::function<std::string()>& work);

 private:
  size_t rank_ = 0;
  size_t count_ = 1;
  bool has_joined_ = false;
  size_t alarms_ = 0;  // failures of others that this process has heard of
};

}  // namespace octet
