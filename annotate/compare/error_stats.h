// Accumulates the sums from which the SQNR, the mean squared error and the cosine of two tensors
// are computed. Free of LibTorch, so that the loop can be compiled with other options.
#pragma once

#include <cstdint>

namespace octet {

// Sums over elements in double precision, independent of the number of threads.
struct ErrorStats {
  double signal = 0;   // squares of the reference
  double energy = 0;   // squares of the subject
  double product = 0;  // reference times subject
  double noise = 0;    // squares of the difference
  double largest = 0;  // largest absolute difference
  int64_t elements = 0;
  // elements where one is NaN or infinite and the other is not the same; not in the sums
  int64_t strange = 0;

  bool has_data() const { return elements > 0; }
  // 10 log10(signal / noise). Infinite when equal, minus infinity where elements are strange, NaN
  // without data.
  double sqnr_db() const;
  double mse() const;     // NaN without data
  double cosine() const;  // 1 for two tensors of zeros, NaN without data
  // noise / signal, which can be summed over ops; infinite where elements are strange or signal is
  // 0
  double relative() const;
  void merge(const ErrorStats& other);
};

// The sums over `count` pairs.
ErrorStats error_stats(const float* reference, const float* subject, int64_t count);

}  // namespace octet
