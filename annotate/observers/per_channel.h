// What per-channel observers of weights share: they look at all values of a channel at once, so
// they take one constant tensor.
#pragma once

#include <span>

#include "annotate/observers/mse_kernels.h"
#include "annotate/observers/observer.h"

namespace octet {

// x as float32 [channels, values of a channel]. Throws Error("calibrate", "", ...) when the rank is
// too small for `axis`.
at::Tensor channel_rows(const at::Tensor& x, int64_t axis);

// One range for each index of dimension ch_axis (default 0), chosen from the channel's values.
class PerChannelObserver : public Observer {
 public:
  // alternative: the observer to name when the scheme is per tensor. Throws Error("prepare", ...)
  // for per-tensor schemes, float zero points, dynamic quantization and dtypes that are not
  // integers.
  PerChannelObserver(ObserverArgs args, const std::string& alternative);
  // Throws Error("calibrate", "", ...) for NaN, infinities, a rank too small for ch_axis, and for a
  // second tensor of other ranges: activations.
  void observe(const at::Tensor& x) override;
  QParams calculate_qparams() const override;
  bool has_data() const override { return !min_.empty(); }
  bool refuses_nan() const override { return true; }
  // The chosen ranges; the values are not kept.
  ObserverState state() const override { return {.min = min_, .max = max_}; }
  void set_state(const ObserverState& state) override;
  // Both must have chosen the same ranges.
  void merge(const Observer& next) override;

 private:
  // Finite values, at least one; may be put into another order. Called from several threads at
  // once.
  virtual ValueRange choose_range(std::span<float> values) const = 0;
  // What is left of the choice in view of all channels: `values` holds one behind the other.
  virtual void settle(std::span<const float> values, std::span<ValueRange> chosen) const;

  std::vector<float> min_;
  std::vector<float> max_;
};

}  // namespace octet
