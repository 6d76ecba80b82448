// Connects the processes that one mpirun started, so that they share a command's work. Without
// mpirun there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "annotate/observed/peers.h"

namespace octet {

// Whether mpirun or a batch system's launcher started this process as one of several, according to
// their environment variables.
bool is_one_of_several();

// Thrown by functions that wait for other processes when one fails. It is not an Error, because the
// failed process has the message.
struct OtherFailed : std::exception {
  const char* what() const noexcept override { return "another process failed"; }
};

class Processes {
 public:
  // Joins the other processes. Throws Error("mpi", ...) if there are others and Octet was built
  // without MPI.
  Processes();
  ~Processes();  // waits for the other processes and leaves
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  size_t rank() const { return rank_; }  // this process's number, from 0
  size_t count() const { return count_; }

  // Throws OtherFailed if another process failed. Takes microseconds; long work calls it from time
  // to time.
  void check_others();

  // Runs `work` in every process. Process 0 gets all texts, in order of rank; the others get
  // nothing. If `work` throws in some processes, process 0 throws the error of the first of them,
  // with its rank, and the others return. All processes must call this, once.
  std::vector<std::string> gather(const std::function<std::string()>& work);

  // Reductions, to be called within the work of gather: each number becomes the sum, minimum or
  // maximum over all processes, with the same bits in each. All processes must call these in the
  // same order with the same number of values; a single process keeps its numbers. The order of
  // summation depends only on the number of processes. Throw OtherFailed if another process failed
  // before it called them.
  void sum(std::span<double> numbers);
  void sum(std::span<float> numbers);
  void sum(std::span<int64_t> numbers);
  void min(std::span<float> numbers);
  void max(std::span<double> numbers);
  // Returns the texts of all processes, in order of rank, in every process.
  std::vector<std::string> share(const std::string& text);

  // Numbers of reductions so far, and of bytes that this process contributed.
  size_t exchanges() const { return exchanges_; }
  size_t exchanged_bytes() const { return exchanged_bytes_; }

 private:
  struct Joined;  // state of MPI, in mpi.cpp
  void reduce(int kind, void* numbers, size_t count);

  size_t rank_ = 0;
  size_t count_ = 1;
  size_t exchanges_ = 0;
  size_t exchanged_bytes_ = 0;
  std::unique_ptr<Joined> joined_;  // null: one process
};

// Adapts Processes to the interface of annotate/.
class ProcessPeers : public Peers {
 public:
  explicit ProcessPeers(Processes& processes) : processes_(processes) {}

  size_t rank() const override { return processes_.rank(); }
  size_t count() const override { return processes_.count(); }
  void sum(std::span<double> numbers) override { processes_.sum(numbers); }
  void min(std::span<float> numbers) override { processes_.min(numbers); }
  std::vector<std::string> share(const std::string& text) override {
    return processes_.share(text);
  }
  Peers* get() { return processes_.count() == 1 ? nullptr : this; }

 private:
  Processes& processes_;
};

}  // namespace octet
