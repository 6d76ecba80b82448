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

// The range with the least error for each channel of a weight or, with per-tensor schemes, for the
// whole weight. The error is product_error, that of the layer's outputs. When all ranges together
// gain next to nothing they stay full: the result would only be a different rounding of the same
// precision.
class WeightMseObserver : public WeightObserver {
 public:
  explicit WeightMseObserver(ObserverArgs args, const std::string& per_tensor = "")
      : WeightObserver(std::move(args), per_tensor) {}

 private:
  ValueRange choose_range(std::span<float> values, size_t channel) const override;
  void settle(std::span<const float> values, size_t channel,
              std::span<ValueRange> chosen) const override;
  double error(std::span<const float> values, size_t channel, const ValueRange& range,
               double limit) const;
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

// Makes that choice from all values of each channel of a weight, interpolated between neighbors.
class PerChannelPercentileObserver : public WeightObserver {
 public:
  explicit PerChannelPercentileObserver(ObserverArgs args);

 private:
  ValueRange choose_range(std::span<float> values, size_t channel) const override;
};

}  // namespace octet
