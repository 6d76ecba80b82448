// Observers that clip: they choose a narrower range than the values span, by the least mean squared
// error (mse) or by a share of the values (percentile).
#pragma once

#include "annotate/observers/histogram.h"
#include "annotate/observers/min_max.h"

namespace octet {

// The range with the least squared error, found by a search in steps of 2^(1/64) over a histogram
// of all batches. Values count as spread evenly within a bin, except for the peaks that clamps
// leave at the ends. The error is never larger than that of the full range or of
// HistogramObserver's range.
class MseObserver : public HistogramObserver {
 public:
  explicit MseObserver(ObserverArgs args) : HistogramObserver(std::move(args), "per_channel_mse") {}

 private:
  Range choose_range() const override;
};

// The range with the least error for each channel of a weight. The error is product_error, that of
// the layer's outputs. When all channels together gain next to nothing they keep their full ranges:
// the result would only be a different rounding of the same precision.
class PerChannelMseObserver : public PerChannelObserver {
 public:
  explicit PerChannelMseObserver(ObserverArgs args) : PerChannelObserver(std::move(args), "mse") {}

 private:
  ValueRange choose_range(std::span<float> values) const override;
  void settle(std::span<const float> values, std::span<ValueRange> chosen) const override;
  double error(std::span<const float> values, const ValueRange& range, double limit) const;
};

// ObserverChoice::percentile of the values stay inside the range. Symmetric schemes clip the
// largest magnitudes, affine ones as many values at either end. Uses a histogram over all batches
// with values spread evenly within a bin: exact to one bin.
class PercentileObserver : public HistogramObserver {
 public:
  // Throws as HistogramObserver does, and for a percentile outside of (0, 100].
  explicit PercentileObserver(ObserverArgs args);

 private:
  Range choose_range() const override;
};

// Makes that choice from all values of each channel of a weight, interpolated between neighbours.
class PerChannelPercentileObserver : public PerChannelObserver {
 public:
  explicit PerChannelPercentileObserver(ObserverArgs args);

 private:
  ValueRange choose_range(std::span<float> values) const override;
};

}  // namespace octet
