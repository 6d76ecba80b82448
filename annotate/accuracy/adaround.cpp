// Adaptive rounding (weight_rounding.h): decides by gradient descent whether each weight is rounded
// up or down. Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", 2020.
#include "annotate/accuracy/weight_rounding.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr const char* kAdaptiveStage = "adaptive rounding";

// Each weight w has a grid point below it, b = floor(w / scale), and a variable v. It is rounded to
// scale * (b + h), where h = clamp(sigmoid(v) * (kHigh - kLow) + kLow, 0, 1). The sigmoid is
// stretched beyond [0, 1] so that h reaches both ends. Adam minimizes the squared error of the
// layer's output plus regularization * sum(1 - |2 h - 1|^beta). With beta = 20 the penalty is about
// 1 for all h but those next to 0 and 1, so h moves freely; as beta falls to 2 it pushes each h to
// the nearer end. Example: w / scale = 3.4 starts with h = 0.4 and ends at 3 or 4, whichever suits
// the other weights of the same output.
constexpr double kLow = -0.1;
constexpr double kHigh = 1.1;
// beta of the penalty 1 - |2 h - 1|^beta, from the first to the last iteration
constexpr double kFirstBeta = 20;
constexpr double kLastBeta = 2;

// Adam with the usual decay rates.
class Adam {
 public:
  Adam(const at::Tensor& parameter, double rate)
      : rate_(rate), mean_(at::zeros_like(parameter)), square_(at::zeros_like(parameter)) {}

  void step(at::Tensor& parameter, const at::Tensor& gradient) {
    ++steps_;
    mean_.mul_(kMeanDecay).add_(gradient, 1 - kMeanDecay);
    square_.mul_(kSquareDecay).addcmul_(gradient, gradient, 1 - kSquareDecay);
    const double bias =
        std::sqrt(1 - std::pow(kSquareDecay, steps_)) / (1 - std::pow(kMeanDecay, steps_));
    parameter.addcdiv_(mean_, square_.sqrt().add_(1e-10), -rate_ * bias);
  }

 private:
  static constexpr double kMeanDecay = 0.9;
  static constexpr double kSquareDecay = 0.999;
  double rate_;
  at::Tensor mean_;
  at::Tensor square_;
  int steps_ = 0;
};

class Descent {
 public:
  Descent(const RoundingProblem& problem, const AdaptiveOptions& options)
      : problem_(problem), options_(options) {
    const at::Tensor steps = problem.weight / problem.scale;
    below_ = at::floor(steps);
    const at::Tensor share = at::clamp((steps - below_ - kLow) / (kHigh - kLow), 1e-4, 1 - 1e-4);
    variable_ = -at::log(1 / share - 1);
    const at::Tensor low = below_ + problem.zero_point;
    // A weight has a choice only if both neighbors are on the grid; else it is clamped.
    is_free_ = ((low >= static_cast<double>(problem.quant_min)) &
                (low + 1 <= static_cast<double>(problem.quant_max)))
                   .to(at::kDouble);
    unit_ = error_unit();
  }

  at::Tensor run() {
    Adam adam(variable_, options_.learning_rate);
    const int warm = static_cast<int>(options_.warm_up * options_.iterations);
    for (int i = 0; i < options_.iterations; ++i) {
      const at::Tensor soft = at::sigmoid(variable_);
      const at::Tensor h = at::clamp(soft * (kHigh - kLow) + kLow, 0, 1);
      at::Tensor slope = error_slope(h);
      if (i >= warm) {
        const double left = 1 - static_cast<double>(i - warm) / (options_.iterations - warm);
        const double beta =
            kLastBeta + 0.5 * (kFirstBeta - kLastBeta) * (1 + std::cos((1 - left) * M_PI));
        const at::Tensor middle = h * 2 - 1;
        slope =
            slope - options_.regularization * 2 * beta * middle.abs().pow(beta - 1) * middle.sign();
      }
      const at::Tensor inside = ((h > 0) & (h < 1)).to(at::kDouble);
      adam.step(variable_, slope * inside * soft * (1 - soft) * (kHigh - kLow));
    }
    const at::Tensor up = (at::sigmoid(variable_) * (kHigh - kLow) + kLow >= 0.5).to(at::kDouble);
    return at::clamp(below_ + up + problem_.zero_point, static_cast<double>(problem_.quant_min),
                     static_cast<double>(problem_.quant_max));
  }

 private:
  at::Tensor values(const at::Tensor& h) const {
    const at::Tensor q =
        at::clamp(below_ + h + problem_.zero_point, static_cast<double>(problem_.quant_min),
                  static_cast<double>(problem_.quant_max));
    return (q - problem_.zero_point) * problem_.scale;
  }

  // The error per weight of rounding to nearest.
  double error_unit() const {
    const at::Tensor step =
        (problem_.nearest - problem_.zero_point) * problem_.scale - problem_.weight;
    const double added = (step * at::bmm(step, problem_.hessian)).sum().item<double>() /
                         static_cast<double>(step.numel());
    return added > 0 ? added : 1;
  }

  at::Tensor error_slope(const at::Tensor& h) const {
    return (at::bmm(values(h), problem_.hessian) - problem_.cross) * problem_.scale * is_free_ *
           (2 / unit_);
  }

  const RoundingProblem& problem_;
  const AdaptiveOptions& options_;
  at::Tensor below_;     // b above
  at::Tensor variable_;  // v above
  at::Tensor is_free_;   // 1 or 0
  double unit_ = 1;
};

void check(const AdaptiveOptions& options) {
  if (options.iterations < 1)
    throw Error(kAdaptiveStage, "iterations",
                fmt::format("got {}, want at least 1; 1000 is typical", options.iterations));
  if (!(options.learning_rate > 0 && std::isfinite(options.learning_rate)))
    throw Error(
        kAdaptiveStage, "learning_rate",
        fmt::format("got {}, want a number above 0; 0.02 is typical", options.learning_rate));
  if (!(options.regularization > 0 && std::isfinite(options.regularization)))
    throw Error(
        kAdaptiveStage, "regularization",
        fmt::format("got {}, want a number above 0; 0.1 is typical", options.regularization));
  if (!(options.warm_up >= 0 && options.warm_up < 1))
    throw Error(
        kAdaptiveStage, "warm_up",
        fmt::format("got {}, want a number from 0 to below 1; 0.2 is typical", options.warm_up));
}

}  // namespace

RoundingMethod adaptive_method(const AdaptiveOptions& options) {
  check(options);
  return [options](const RoundingProblem& problem) {
    const at::NoGradGuard no_grad;
    return Descent(problem, options).run();
  };
}

std::vector<LayerRounding> round_adaptive(ObservedGraph& observed, const BatchSource& data,
                                          Report& report, const RoundingOptions& options,
                                          const AdaptiveOptions& method) {
  return round_weights(observed, data, adaptive_method(method), options, kAdaptiveStage, report);
}

}  // namespace octet
