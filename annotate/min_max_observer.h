// Running and averaged minimum and maximum, of the whole tensor and per channel.
#pragma once

#include "annotate/observer.h"

namespace octet {

enum class Averaging { kRunning, kMoving };  // min(old, new), or old + constant * (new - old)

// One range for the whole tensor. kMoving: ObserverChoice::averaging_constant.
class MinMaxObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-channel schemes.
  MinMaxObserver(ObserverArgs args, Averaging averaging);
  void observe(const at::Tensor& x) override;
  QParams calculate_qparams() const override;
  bool has_data() const override { return has_data_; }
  ObserverState state() const override;
  void set_state(const ObserverState& state) override;

 private:
  Averaging averaging_;
  bool has_data_ = false;
  float min_ = 0;
  float max_ = 0;
};

// One range for each index of dimension ch_axis (default 0).
class PerChannelMinMaxObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-tensor schemes and dynamic quantization.
  PerChannelMinMaxObserver(ObserverArgs args, Averaging averaging);
  // Throws Error when the channel count differs from the one before or the rank is too small for ch_axis.
  void observe(const at::Tensor& x) override;
  QParams calculate_qparams() const override;
  bool has_data() const override { return !min_.empty(); }
  ObserverState state() const override { return {min_, max_, {}}; }
  void set_state(const ObserverState& state) override;

 private:
  Averaging averaging_;
  std::vector<float> min_;
  std::vector<float> max_;
};

}  // namespace octet
