// Running and averaged minimum and maximum, of the whole tensor and per channel.
#pragma once

#include "annotate/observers/observer.h"
#include "annotate/observers/running_range.h"

namespace octet {

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

}  // namespace octet
