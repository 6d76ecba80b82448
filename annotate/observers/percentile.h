// Ranges that clip a given share of the values: ObserverChoice::percentile of them stay inside.
// Symmetric schemes clip the largest magnitudes, affine ones as many values at either end.
#pragma once

#include "annotate/observers/histogram.h"
#include "annotate/observers/per_channel.h"

namespace octet {

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
