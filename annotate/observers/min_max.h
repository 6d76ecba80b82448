// Minimum and maximum over batches, one pair or one per channel: running, or averaged. What the
// min-max observers have in common.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "annotate/observers/kernels.h"
#include "annotate/observers/observer.h"

namespace octet {

enum class Averaging { kRunning, kMoving };  // min(old, new), or old + constant * (new - old)

class RunningRange {
 public:
  // constant: of kMoving, 0 < constant <= 1.
  RunningRange(Averaging averaging, double constant)
      : averaging_(averaging), constant_(static_cast<float>(constant)) {}

  // Takes in one batch: as many values of each as there were before. Throws Error("calibrate", ...)
  // on NaN and infinities, then with nothing taken in.
  void update(std::span<const float> low, std::span<const float> high);
  // Takes in the state of the range over the data that follows. kRunning: exact. kMoving: with n
  // batches in `next`, whose first alone had the range f,
  //   result = next + (1 - constant)^n * (this - f),
  // which is what one pass gives but for rounding: within 2^-21 / constant of the largest
  // magnitude. For n = 1 it is computed as update() does, to the bit. Throws Error("state",
  // subject, ...) when the numbers of ranges differ, and for kMoving without `batches` and the
  // first range.
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
  int64_t batches_ = 0;  // of kMoving, like the two below
  std::vector<float> first_min_;
  std::vector<float> first_max_;
};

// Running and averaged minimum and maximum, of the whole tensor and per channel.

// One range for the whole tensor. kMoving: ObserverChoice::averaging_constant.
class MinMaxObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-channel schemes.
  MinMaxObserver(ObserverArgs args, Averaging averaging);
  void observe(const at::Tensor& x) override;
  QParams calculate_qparams() const override;
  Sees sees() const override { return Sees::kEnds; }
  bool has_data() const override { return range_.has_data(); }
  bool refuses_nan() const override { return true; }
  ObserverState state() const override { return range_.state(); }
  void set_state(const ObserverState& state) override;
  void merge(const Observer& next) override;

 private:
  RunningRange range_;
};

// One range for each index of dimension ch_axis (default 0).
class PerChannelMinMaxObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-tensor schemes and dynamic quantization.
  PerChannelMinMaxObserver(ObserverArgs args, Averaging averaging);
  // Throws Error when the channel count differs from the one before or the rank is too small for
  // ch_axis.
  void observe(const at::Tensor& x) override;
  QParams calculate_qparams() const override;
  Sees sees() const override { return Sees::kChannelEnds; }
  bool has_data() const override { return range_.has_data(); }
  bool refuses_nan() const override { return true; }
  ObserverState state() const override { return range_.state(); }
  void set_state(const ObserverState& state) override {
    range_.set_state(state, args_.choice.name);
  }
  void merge(const Observer& next) override;

 private:
  RunningRange range_;
};

// For per_channel_affine_float_qparams: the same with zero points that have no fraction.
// quantize_per_channel adds the zero point to the rounded value and then cuts the fraction off,
// which loses half a step on average.
class WholeZeroPointObserver : public PerChannelMinMaxObserver {
 public:
  explicit WholeZeroPointObserver(const ObserverArgs& args)
      : PerChannelMinMaxObserver(args, Averaging::kRunning) {}
  QParams calculate_qparams() const override;
};

// What per-channel observers of weights share: they look at all values of a channel at once, so
// they take one constant tensor.

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
