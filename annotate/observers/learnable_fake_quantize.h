// Fake-quants whose scale and zero point are trained together with the weights: LSQ (Esser et al.
// 2020, "Learned Step Size Quantization"), with zero points as in LSQ+ (Bhalgat et al. 2020).
//
//   y = (q - z) * s,  q = clamp(round(x / s) + round(z), quant_min, quant_max)
//
//   gradient   inside the range         outside
//   dy/dx      1                        0
//   dy/ds      round(x / s) - x / s     q - z
//   dy/dz      0                        -s
//
// Example: s = 0.5, z = 0, int8. x = 0.8 rounds to q = 2, y = 1.0. If the loss wants y smaller, its
// gradient of s is round(1.6) - 1.6 = 0.4 times that of y, and s shrinks. x = 100 is clamped to q =
// 127, y = 63.5; dy/ds = 127, so a loss that wants y larger increases s.
#pragma once

#include "annotate/observers/fake_quantize.h"

namespace octet {

// Scale and zero point first follow the observer, which is never disabled before it has data;
// enable_range_learning() hands them to the optimizer. Symmetric schemes keep their zero point.
// Registered as "learnable_fake_quantize", with the gradients above like torchao's class of this
// name by default, and as "lsq_fake_quantize", which scales them; both with an observer in
// parentheses, by default the moving average.
class LearnableFakeQuantize : public FakeQuantize {
 public:
  // Factor of the gradients of scale and zero point: 1, or the paper's 1 / sqrt(N * quant_max) for
  // N elements that share a scale. torchao's use_grad_scaling is the second for per-tensor scales;
  // per channel it uses all elements as N.
  enum class GradScaling { kOff, kPerScale };

  // Throws Error("prepare", ...) for float zero points, for granularities, and for dynamic specs,
  // whose scales are not kept.
  LearnableFakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer, GradScaling scaling);

  // On: switches the observer off and learning on. Off: scale and zero point stay unchanged.
  void enable_range_learning(bool enabled = true);
  // Also ends learning, as the observer decides again.
  void enable_observer(bool enabled = true) override;
  bool is_learning() const { return is_learning_; }

  void observe(const at::Tensor& x) override;
  bool observes() const override { return observer_enabled_ || !has_data(); }
  // The trained ones: scales of at least eps, zero points whole and within the range.
  QParams calculate_qparams() const override;
  void set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) override;

  // The tensors for an optimizer: f32, the same from construction on, without gradients until
  // learning begins. The scale, and for affine schemes the zero point.
  std::vector<at::Tensor> parameters() const;

 protected:
  at::Tensor round(const at::Tensor& x, double share) override;

 private:
  GradScaling scaling_;
  bool is_learning_ = false;
};

std::shared_ptr<Observer> make_learnable_fake_quantize(const ObserverArgs& args);
std::shared_ptr<Observer> make_lsq_fake_quantize(const ObserverArgs& args);

// Calls enable_range_learning() on each learnable fake-quant.
void enable_range_learning(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled);
// Each tensor once, in the order of the observers.
std::vector<at::Tensor> range_parameters(const std::vector<std::shared_ptr<Observer>>& observers);

}  // namespace octet
