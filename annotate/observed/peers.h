// Processes that each have a part of the data: what work on it needs of the others. Whoever starts
// them implements it; null stands for one process everywhere.
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
  // Each number becomes that of all processes together, with the same bits in each. All call these
  // in the same order with as many numbers. What they throw is to be let through.
  virtual void sum(std::span<double> numbers) = 0;
  virtual void min(std::span<float> numbers) = 0;
  // The texts of all, in order of rank, in every process.
  virtual std::vector<std::string> share(const std::string& text) = 0;
};

// The sum over all processes.
double sum_over(Peers* peers, double number);
// The same of all numbers of the tensors, in one exchange: f64, changed in place.
void sum_over(Peers* peers, const std::vector<at::Tensor>& tensors);
// Of the batches 0 .. total - 1, where each process takes every so-manieth: how many this one has.
size_t count_of_own(const Peers* peers, size_t total);

}  // namespace octet
