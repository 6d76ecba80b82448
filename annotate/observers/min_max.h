// Observers of minimum and maximum: running or averaged, per tensor or per channel; and what
// observers of constant weights have in common.
#pragma once

#include "annotate/observers/kernels.h"
#include "annotate/observers/observer.h"

namespace octet {

enum class Averaging { kRunning, kMoving };  // min(old, new), or old + constant * (new - old)

class RunningRange {
 public:
  // constant: for kMoving, 0 < constant <= 1.
  RunningRange(Averaging averaging, double constant)
      : averaging_(averaging), constant_(static_cast<float>(constant)) {}

  // Adds one batch, with as many values as before. Throws Error("calibrate", ...) on NaN and
  // infinities, and then adds nothing.
  void update(std::span<const float> low, std::span<const float> high);
  // Merges the state of the range over the data that follows. kRunning: exact. kMoving: with n
  // batches in `next`, the first of which had the range f,
  //   result = next + (1 - constant)^n * (this - f)
  // which is what a single pass gives, up to rounding: within 2^-21 / constant of the largest
  // magnitude. Why: an average over the n batches starts from f instead of from `this`, and each
  // batch shrinks that difference by (1 - constant). Example with constant 0.5: this = 4, next saw
  // 2 and 6, so f = 2 and next = 4; result = 4 + 0.25 * (4 - 2) = 4.5, as in one pass: 4 -> 3 ->
  // 4.5. For n = 1 it is computed as update() does, to the bit. Throws Error("state", subject, ...)
  // when the numbers of ranges differ, and for kMoving without `batches` and the first range.
  void merge(const ObserverState& next, const std::string& subject);

  bool has_data() const { return !min_.empty(); }
  const std::vector<float>& min() const { return min_; }
  const std::vector<float>& max() const { return max_; }
  Averaging averaging() const { return averaging_; }
  ObserverState state() const;
  // Throws Error("state", subject, ...) when the vectors differ in length.
  void set_state(const ObserverState& state, const std::string& subject);

 private:
  Averaging averaging_;
  float constant_;
  std::vector<float> min_;
  std::vector<float> max_;
  int64_t batches_ = 0;  // for kMoving, like the two below
  std::vector<float> first_min_;
  std::vector<float> first_max_;
};

// The base of observers with a RunningRange.
class RangeObserver : public Observer {
 public:
  QParams calculate_qparams() const override;
  bool has_data() const override { return range_.has_data(); }
  bool refuses_nan() const override { return true; }
  ObserverState state() const override { return range_.state(); }
  void set_state(const ObserverState& state) override {
    range_.set_state(state, args_.choice.name);
  }
  void merge(const Observer& next) override;

 protected:
  RangeObserver(ObserverArgs args, Averaging averaging);

  RunningRange range_;
};

// One range for the whole tensor. kMoving: ObserverChoice::averaging_constant.
class MinMaxObserver : public RangeObserver {
 public:
  // Throws Error("prepare", ...) for per-channel schemes.
  MinMaxObserver(ObserverArgs args, Averaging averaging);
  void observe(const at::Tensor& x) override;
  Sees sees() const override { return Sees::kEnds; }
  void set_state(const ObserverState& state) override;
};

// One range for each index of dimension ch_axis (default 0).
class PerChannelMinMaxObserver : public RangeObserver {
 public:
  // Throws Error("prepare", ...) for per-tensor schemes and dynamic quantization.
  PerChannelMinMaxObserver(ObserverArgs args, Averaging averaging);
  // Throws Error when the channel count differs from the one before or the rank is too small for
  // ch_axis.
  void observe(const at::Tensor& x) override;
  Sees sees() const override { return Sees::kChannelEnds; }
};

// For per_channel_affine_float_qparams: rounds zero points to whole numbers. quantize_per_channel
// adds the zero point to the rounded value and then truncates, which with fractional zero points
// loses half a step on average.
class WholeZeroPointObserver : public PerChannelMinMaxObserver {
 public:
  explicit WholeZeroPointObserver(const ObserverArgs& args)
      : PerChannelMinMaxObserver(args, Averaging::kRunning) {}
  QParams calculate_qparams() const override;
};

// x as float32 [channels, values per channel]. Throws Error("calibrate", "", ...) when the rank is
// too small for `axis`.
at::Tensor channel_rows(const at::Tensor& x, int64_t axis);

// Base class of observers that choose a range per channel (index of dimension ch_axis, default 0)
// or, with per-tensor schemes, one range, from all values. They therefore observe a single constant
// tensor, a weight.
class WeightObserver : public Observer {
 public:
  // per_tensor: the observer that the message suggests for per-tensor schemes; "" when this one
  // takes them. Throws Error("prepare", ...) for schemes that it does not take, float zero points,
  // dynamic quantization and non-integer dtypes.
  WeightObserver(ObserverArgs args, const std::string& per_tensor);
  // Throws Error("calibrate", "", ...) for NaN, infinities, a rank too small for ch_axis, and for a
  // second tensor with other ranges, as activations have.
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
  // values: of the channels that share the range, each with `channel` values; finite, at least one;
  // may be reordered. Called from several threads at once.
  virtual ValueRange choose_range(std::span<float> values, size_t channel) const = 0;
  // Revises the choices in view of all channels; `values` holds the channels one after the other.
  virtual void settle(std::span<const float> values, size_t channel,
                      std::span<ValueRange> chosen) const;

  std::vector<float> min_;
  std::vector<float> max_;
};

}  // namespace octet
