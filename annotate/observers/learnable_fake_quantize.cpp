#include "annotate/observers/learnable_fake_quantize.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fake_quantize_learnable_per_channel_affine.h>
#include <ATen/ops/_fake_quantize_learnable_per_tensor_affine.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "core/base/error.h"

namespace octet {
namespace {

// Keeps the tensor object that the optimizer has.
void overwrite(const at::Tensor& kept, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  if (kept.sizes() == values.sizes())
    kept.copy_(values);
  else
    kept.set_data(values.detach().to(at::kFloat).clone());
}

std::shared_ptr<Observer> make(const ObserverArgs& args,
                               LearnableFakeQuantize::GradScaling scaling) {
  return std::make_shared<LearnableFakeQuantize>(
      args, make_inner_observer(args, moving_average_name(args.qscheme)), scaling);
}

}  // namespace

LearnableFakeQuantize::LearnableFakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer,
                                             GradScaling scaling)
    : FakeQuantize(std::move(args), std::move(observer)), scaling_(scaling) {
  if (args_.qscheme == QScheme::kPerChannelAffineFloatQParams)
    throw Error("prepare", args_.choice.name,
                "this fake-quant has no float zero points; use fake_quantize");
  if (args_.is_dynamic)
    throw Error("prepare", args_.choice.name,
                "learned scales are kept, got a dynamic spec, whose scales follow each batch; use "
                "fake_quantize");
  zero_point_ = at::zeros({1}, at::kFloat);
}

void LearnableFakeQuantize::enable_range_learning(bool enabled) {
  is_learning_ = enabled;
  if (enabled) observer_enabled_ = false;
  for (const at::Tensor& parameter : parameters()) parameter.requires_grad_(enabled);
}

void LearnableFakeQuantize::enable_observer(bool enabled) {
  if (enabled) enable_range_learning(false);
  observer_enabled_ = enabled;
}

void LearnableFakeQuantize::observe(const at::Tensor& x) {
  if (x.numel() == 0 || (!observer_enabled_ && has_data())) return;
  observer_->observe(x);
  update_qparams();
}

at::Tensor LearnableFakeQuantize::round(const at::Tensor& x, double share) {
  if (scale_.detach().min().item<float>() < eps()) {
    const at::NoGradGuard no_grad;
    scale_.clamp_min_(eps());
  }
  // Backward needs the current scale. While it is learned nobody else writes to it; an observer
  // writes to it at each node of its group.
  const at::Tensor scale = is_learning_ ? scale_ : scale_.detach().clone();
  const double elements =
      static_cast<double>(x.numel()) / (share * static_cast<double>(scale_.numel()));
  const double factor =
      scaling_ == GradScaling::kOff ? 1 : 1 / std::sqrt(elements * static_cast<double>(quant_max_));
  // The ops round zero points up from .5 by truncating, which is wrong below 0, so the range is
  // shifted to begin at 0.
  const at::Tensor zero_point = zero_point_ - c10::Scalar(quant_min_);
  if (!is_per_channel(args_.qscheme))
    return at::_fake_quantize_learnable_per_tensor_affine(x, scale, zero_point, 0,
                                                          quant_max_ - quant_min_, factor);
  return at::_fake_quantize_learnable_per_channel_affine(
      x, scale, zero_point, args_.ch_axis.value_or(0), 0, quant_max_ - quant_min_, factor);
}

QParams LearnableFakeQuantize::calculate_qparams() const {
  QParams qparams = observer_->calculate_qparams();
  const int64_t count = scale_.numel();
  OCTET_ASSERT(static_cast<int64_t>(qparams.scale.size()) == count, args_.choice.name);
  const float* scale = scale_.const_data_ptr<float>();
  const float* zero_point = zero_point_.const_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    qparams.scale[at] = std::max(scale[i], eps());
    qparams.zero_point[at] =
        std::clamp(static_cast<int64_t>(std::nearbyint(zero_point[i])), quant_min_, quant_max_);
  }
  return qparams;
}

void LearnableFakeQuantize::set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) {
  overwrite(scale_, scale);
  overwrite(zero_point_, zero_point);
}

std::vector<at::Tensor> LearnableFakeQuantize::parameters() const {
  if (is_symmetric(args_.qscheme)) return {scale_};
  return {scale_, zero_point_};
}

std::shared_ptr<Observer> make_learnable_fake_quantize(const ObserverArgs& args) {
  return make(args, LearnableFakeQuantize::GradScaling::kOff);
}

std::shared_ptr<Observer> make_lsq_fake_quantize(const ObserverArgs& args) {
  return make(args, LearnableFakeQuantize::GradScaling::kPerScale);
}

void enable_range_learning(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled) {
  for (const std::shared_ptr<Observer>& observer : observers)
    if (LearnableFakeQuantize* learnable = dynamic_cast<LearnableFakeQuantize*>(observer.get()))
      learnable->enable_range_learning(enabled);
}

std::vector<at::Tensor> range_parameters(const std::vector<std::shared_ptr<Observer>>& observers) {
  std::vector<at::Tensor> result;
  for (const std::shared_ptr<Observer>& observer : observers)
    if (const LearnableFakeQuantize* learnable =
            dynamic_cast<const LearnableFakeQuantize*>(observer.get()))
      for (const at::Tensor& parameter : learnable->parameters()) result.push_back(parameter);
  return result;
}

}  // namespace octet
