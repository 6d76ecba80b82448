// Exchanges sums and texts between processes that each work on a part of the data. The code that
// starts the processes implements it; a null pointer means a single process.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace octet {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual size_t rank() const = 0;  // of this process, from 0
  virtual size_t count() const = 0;
  // Replaces each number by the result over all processes, with the same bits in each. All
  // processes make these calls in the same order with the same number of numbers. Let exceptions
  // from them pass.
  virtual void sum(std::span<double> numbers) = 0;
  virtual void min(std::span<float> numbers) = 0;
  // Returns the texts of all processes, by rank, in every process.
  virtual std::vector<std::string> share(const std::string& text) = 0;
};

// The sum over all processes.
double sum_over(Peers* peers, double number);
// Sums all numbers of the tensors (f64) in place, in one exchange.
void sum_over(Peers* peers, const std::vector<at::Tensor>& tensors);
// Number of the batches 0 .. total - 1 that this process gets (round-robin).
size_t count_of_own(const Peers* peers, size_t total);

}  // namespace octet
