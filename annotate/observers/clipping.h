// The range whose quantization has the least mean squared error over what was observed, as far as a
// search by steps of 2^(1/64) finds it. Never a larger error than the full range has.
#pragma once

#include "annotate/observers/histogram.h"
#include "annotate/observers/min_max.h"

namespace octet {

// Of a histogram over all batches: values are spread evenly within a bin, but for the heaps that
// clamps leave at the ends. Nor has it a larger error than HistogramObserver's range.
class MseObserver : public HistogramObserver {
 public:
  explicit MseObserver(ObserverArgs args) : HistogramObserver(std::move(args), "per_channel_mse") {}

 private:
  Range choose_range() const override;
};

// Of all values of each channel: weights. The error is product_error, that of the layer's outputs.
// Where all channels together gain next to nothing they keep their full ranges: another rounding of
// the same precision.
class PerChannelMseObserver : public PerChannelObserver {
 public:
  explicit PerChannelMseObserver(ObserverArgs args) : PerChannelObserver(std::move(args), "mse") {}

 private:
  ValueRange choose_range(std::span<float> values) const override;
  void settle(std::span<const float> values, std::span<ValueRange> chosen) const override;
  double error(std::span<const float> values, const ValueRange& range, double limit) const;
};

// Ranges that clip a given share of the values: ObserverChoice::percentile of them stay inside.
// Symmetric schemes clip the largest magnitudes, affine ones as many values at either end.

// From a histogram over all batches, values being spread evenly within a bin: exact to one bin.
class PercentileObserver : public HistogramObserver {
 public:
  // Throws as HistogramObserver does, and for percentiles that are not above 0 and at most 100.
  explicit PercentileObserver(ObserverArgs args);

 private:
  Range choose_range() const override;
};

// From all values of each channel, interpolated between neighbours: weights.
class PerChannelPercentileObserver : public PerChannelObserver {
 public:
  explicit PerChannelPercentileObserver(ObserverArgs args);

 private:
  ValueRange choose_range(std::span<float> values) const override;
};

}  // namespace octet
