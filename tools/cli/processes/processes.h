// The processes that one call of mpirun started, which share a command's work. Without mpirun there
// is one.
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

// Whether mpirun or a batch system's launcher started this process as one of several: their
// environment variables say so.
bool is_one_of_several();

// Thrown by what waits for others. No Error: the process that failed has the message.
struct OtherFailed : std::exception {
  const char* what() const noexcept override { return "another process failed"; }
};

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

  // Within the work of gather: each number becomes that of all processes together, with the same
  // bits in each. All call these in the same order with as many numbers; one process keeps what it
  // has. Sums are in an order that depends on the number of processes alone. Throw OtherFailed when
  // the work of another process failed before it came here.
  void sum(std::span<double> numbers);
  void sum(std::span<float> numbers);
  void sum(std::span<int64_t> numbers);
  void min(std::span<float> numbers);
  void max(std::span<double> numbers);
  // The texts of all, in order of rank, in every process.
  std::vector<std::string> share(const std::string& text);

  // Calls of sum, min and max so far, and bytes that this process gave to them.
  size_t exchanges() const { return exchanges_; }
  size_t exchanged_bytes() const { return exchanged_bytes_; }

 private:
  struct Joined;  // what several processes need; in mpi.cpp
  void reduce(int kind, void* numbers, size_t count);

  size_t rank_ = 0;
  size_t count_ = 1;
  size_t exchanges_ = 0;
  size_t exchanged_bytes_ = 0;
  std::unique_ptr<Joined> joined_;  // null: one process
};

// The processes as annotate/ knows them.
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
