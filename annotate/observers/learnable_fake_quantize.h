// Fake-quants whose scale and zero point are trained with the weights: LSQ (Esser et al., "Learned
// Step Size Quantization"), and LSQ+ for zero points.
//
//   y = (q - z) * s,  q = clamp(round(x / s) + round(z), quant_min, quant_max)
//   dy/dx = 1 within the range, else 0      dy/ds = round(x / s) - x / s within the range, else q -
//       z      dy/dz = 0 within the range, else -s
#pragma once

#include <memory>
#include <vector>

#include "annotate/observers/fake_quantize.h"

namespace octet {

// At first scale and zero point follow the observer, which is never disabled before it has data;
// enable_range_learning() hands them to the optimizer. Symmetric schemes keep their zero point.
// Registered as "learnable_fake_quantize", whose gradients are those above, as torchao's class of
// this name has them by default, and as "lsq_fake_quantize"; both with an observer in parentheses,
// else the moving average.
class LearnableFakeQuantize : public FakeQuantize {
 public:
  // What gradients of scale and zero point are multiplied with: nothing, or the paper's 1 / sqrt(N
  // * quant_max) for N elements with one scale. torchao's use_grad_scaling is the second for
  // tensors; per channel it takes all elements for N.
  enum class GradScaling { kOff, kPerScale };

  // Throws Error("prepare", ...) for float zero points, for granularities, and for dynamic specs,
  // whose scales are not kept.
  LearnableFakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer, GradScaling scaling);

  // Switches the observer off, or learning off: scale and zero point then stay as they are.
  void enable_range_learning(bool enabled = true);
  // Ends learning, as the observer decides again.
  void enable_observer(bool enabled = true) override;
  bool is_learning() const { return is_learning_; }

  void observe(const at::Tensor& x) override;
  bool observes() const override { return observer_enabled_ || !has_data(); }
  // Those of training: scales of at least eps, zero points whole and within the range.
  QParams calculate_qparams() const override;
  void set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) override;

  // What an optimizer trains: f32, the same tensors from construction on, without gradients until
  // learning begins. scale, and the zero point of affine schemes.
  std::vector<at::Tensor> parameters() const;

 protected:
  at::Tensor round(const at::Tensor& x, double share) override;

 private:
  GradScaling scaling_;
  bool is_learning_ = false;
};

std::shared_ptr<Observer> make_learnable_fake_quantize(const ObserverArgs& args);
std::shared_ptr<Observer> make_lsq_fake_quantize(const ObserverArgs& args);

// Of all learnable ones among the observers of a graph.
void enable_range_learning(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled);
// Each tensor once, in the order of the observers.
std::vector<at::Tensor> range_parameters(const std::vector<std::shared_ptr<Observer>>& observers);

}  // namespace octet
