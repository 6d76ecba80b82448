// Fake-quants: observers whose nodes return x quantized and dequantized, so that a forward run
// includes the rounding. They use ATen's fake-quantize ops, whose gradient is 1 inside the
// quantized range and 0 outside.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"

namespace octet {

// Wraps any observer with a scale. Registered as "fake_quantize": the moving average of the qscheme
// (per tensor or per channel), or the observer named in parentheses, as in
// "fake_quantize(histogram)". Convert treats it like the observer inside.
class FakeQuantize : public Observer {
 public:
  // args: those of the observer, with the fake-quant's name. Throws Error("prepare", ...) when the
  // observer never has a scale.
  FakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer);

  // While the observer is enabled, it observes x, and scale and zero point follow.
  void observe(const at::Tensor& x) override;
  // observe(x); then, while fake quantization is enabled, (clamp(round(x / scale) + zero_point,
  // quant_min, quant_max) - zero_point) * scale, with gradients. Before the first data the scale is
  // 1 and the zero point 0.
  at::Tensor forward(const at::Tensor& x) override;
  at::Tensor forward_part(const at::Tensor& x, const at::Tensor& ends, double share) override;
  Sees sees() const override { return observer_->sees(); }
  bool observes() const override { return observer_enabled_; }
  QParams calculate_qparams() const override { return observer_->calculate_qparams(); }
  bool has_data() const override { return observer_->has_data(); }
  bool is_idempotent() const override { return false; }  // its output depends on each call
  bool refuses_nan() const override { return observer_->refuses_nan(); }
  bool keeps_state() const override { return observer_->keeps_state(); }
  ObserverState state() const override { return observer_->state(); }
  void set_state(const ObserverState& state) override;
  void merge(const Observer& other) override;

  // Both are on at first.
  virtual void enable_observer(bool enabled = true) { observer_enabled_ = enabled; }
  void disable_observer() { enable_observer(false); }
  void enable_fake_quant(bool enabled = true) { fake_quant_enabled_ = enabled; }
  void disable_fake_quant() { fake_quant_enabled_ = false; }
  bool observer_enabled() const { return observer_enabled_; }
  bool fake_quant_enabled() const { return fake_quant_enabled_; }

  // Overrides scale and zero point until the observer observes again. Shapes and dtypes are those
  // of scale() and zero_point().
  virtual void set_qparams(const at::Tensor& scale, const at::Tensor& zero_point);
  // Sets the range in which training starts, as if one batch had had the range [scale * (quant_min
  // - zero_point), scale * (quant_max - zero_point)]. One scale, or one per channel. `qparams` come
  // from an observer with the same quant_min and quant_max.
  void set_initial_range(const QParams& qparams);
  const Observer& observer() const { return *observer_; }
  // f32 [1], [channels] or [blocks]; 1 before the first data
  const at::Tensor& scale() const { return scale_; }
  // int32, for float qparams f32; same shape as scale()
  const at::Tensor& zero_point() const { return zero_point_; }

 protected:
  // For observers with blocks: no scale yet.
  struct WithBlocks {};
  FakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer, WithBlocks);
  virtual void update_qparams();  // from the observer; requires data
  // share: see forward_part
  virtual at::Tensor round(const at::Tensor& x, double share);

  std::shared_ptr<Observer> observer_;
  bool observer_enabled_ = true;
  bool fake_quant_enabled_ = true;
  at::Tensor scale_;
  at::Tensor zero_point_;
};

// Computes moving average and scale in one ATen op, like torchao's class of this name: forward uses
// that op's scale and zero point, which differ from calculate_qparams() until
// use_trained_qparams(). Registered as "fused_moving_avg_obs_fake_quantize", which gives a
// FakeQuantize of the moving average for channel axes other than 0.
class FusedMovingAvgObsFakeQuantize : public FakeQuantize {
 public:
  // Throws Error("prepare", ...) when the observer inside is not a moving average, and for float
  // qparams and channel axes other than 0, which the op lacks.
  FusedMovingAvgObsFakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer);
  void observe(const at::Tensor& x) override { run(x, x, false); }
  QParams calculate_qparams() const override;
  // Makes calculate_qparams() return the scale and zero point of the forward pass, except for
  // scales below eps. The op's symmetric scale differs from the observer's (for -8 .. 7 by up to 7
  // %), so a program converted with the latter is not quite the one that was trained.
  void use_trained_qparams() { uses_trained_ = true; }
  at::Tensor forward(const at::Tensor& x) override { return run(x, x, fake_quant_enabled_); }
  at::Tensor forward_part(const at::Tensor& x, const at::Tensor& ends, double) override {
    return run(x, ends.defined() ? ends : x, fake_quant_enabled_);
  }

 protected:
  void update_qparams() override;  // takes over the observer's range; the op updates the rest

 private:
  // seen: x, or a tensor with the extremes of the batch that x is a part of
  at::Tensor run(const at::Tensor& x, const at::Tensor& seen, bool fake_quant);
  at::Tensor run_op(const at::Tensor& x, bool fake_quant);
  at::Tensor run_per_tensor(const at::Tensor& x, const at::Tensor& seen, bool fake_quant);
  at::Tensor run_per_channel(const at::Tensor& x, const at::Tensor& seen, bool fake_quant);
  void reset_range();  // to the observer's range
  // resets the range and throws Error("calibrate", ...) when it holds NaN or infinities
  void check_range();

  at::Tensor min_;  // f32 [] or [channels]; infinity before the first data
  at::Tensor max_;
  bool uses_trained_ = false;
};

// With a fixed scale and zero point, per tensor.
class FixedQParamsFakeQuantize : public FakeQuantize {
 public:
  explicit FixedQParamsFakeQuantize(const FixedQParamsQuantizationSpec& spec);
};

// "fake_quantize(histogram)" -> "fake_quantize" and "histogram"; a name without parentheses has an
// empty inner one.
struct WrappedName {
  std::string outer;
  std::string inner;
};
WrappedName split_observer_name(const std::string& name);

// Create the fake-quants of the registered names.
std::shared_ptr<Observer> make_fake_quantize(const ObserverArgs& args);
std::shared_ptr<Observer> make_fused_fake_quantize(const ObserverArgs& args);

// The observer that a fake-quant's name asks for: the one in parentheses, else `otherwise`.
std::shared_ptr<Observer> make_inner_observer(ObserverArgs args, const char* otherwise);
// The default observer, per tensor or per channel.
const char* moving_average_name(QScheme qscheme);

// Switches all fake-quants among the observers of a graph.
void enable_observers(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled);
void enable_fake_quants(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled);
// Calls use_trained_qparams() on each FusedMovingAvgObsFakeQuantize.
void use_trained_qparams(const std::vector<std::shared_ptr<Observer>>& observers);

// Fake quantization with one scale; gives the numbers of ATen's op, vectorized: (clamp(round(x /
// scale) + zero_point, quant_min, quant_max) - zero_point) * scale, rounded half to even. scale:
// f32 [1]; zero_point: i32 [1]. Straight-through gradient: 1 where the rounded value is inside the
// range, else 0.
at::Tensor fake_quantize_straight_through(const at::Tensor& x, const at::Tensor& scale,
                                          const at::Tensor& zero_point, int64_t quant_min,
                                          int64_t quant_max);

}  // namespace octet
