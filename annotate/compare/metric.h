// How far a tensor is from what it should be, summed over batches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace octet {

// Sums over elements, in double precision; the same for any number of threads.
struct ErrorStats {
  double signal = 0;   // of squares of the reference
  double energy = 0;   // of squares of the subject
  double product = 0;  // of reference times subject
  double noise = 0;    // of squares of the difference
  double largest = 0;  // difference, absolute
  int64_t elements = 0;
  // of which one is NaN or infinite and the other is not, or is another; in no sum
  int64_t strange = 0;

  bool has_data() const { return elements > 0; }
  // 10 log10(signal / noise). Infinite when equal, minus infinity where elements are strange, NaN
  // without data.
  double sqnr_db() const;
  double mse() const;     // NaN without data
  double cosine() const;  // 1 for two tensors of zeros, NaN without data
  // noise / signal: what can be added up; infinite where elements are strange or signal is 0
  double relative() const;
  void merge(const ErrorStats& other);
};

// Any real dtypes, broadcast to each other's shape. Throws Error("compare", ...) when they cannot
// be.
ErrorStats compare_tensors(const at::Tensor& reference, const at::Tensor& subject);

// Metrics of one's own: by what `octet compare` and `octet tune` judge tensors beside the ratio of
// signal to noise.

// Of the reference's tensor and the subject's, both float, of one shape and of one batch. Larger is
// nearer; what tune compares with a limit is the mean over batches. NaN: says nothing about such
// tensors. It may throw, which ends the comparison.
using Metric = std::function<double(const at::Tensor& reference, const at::Tensor& subject)>;

// Makes a metric known by name. Throws Error("metric", ...) when the name is empty, no word or
// taken, or when there is no function. Not while other threads compare.
void register_metric(const std::string& name, Metric metric);

// In the order in which they were registered.
std::vector<std::string> metric_names();

// The metric of that name; what it throws comes out as Error("metric", name, ...) with the shape of
// the tensors. Throws Error("metric", name, ...) when there is none.
Metric find_metric(const std::string& name);

}  // namespace octet
