#include "annotate/observers/fake_quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fake_quantize_per_channel_affine.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>
#include <ATen/ops/full.h>
#include <ATen/ops/fused_moving_avg_obs_fake_quant.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "annotate/annotation/qparams.h"
#include "annotate/observers/data_free.h"
#include "annotate/observers/kernels.h"
#include "annotate/observers/min_max.h"
#include "core/base/error.h"

namespace octet {
namespace {

at::Tensor tensor_of(const std::vector<float>& values) {
  at::Tensor result = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::ranges::copy(values, result.data_ptr<float>());
  return result;
}

at::Tensor tensor_of(const std::vector<int64_t>& values) {
  at::Tensor result = at::empty({static_cast<int64_t>(values.size())}, at::kInt);
  std::ranges::transform(values, result.data_ptr<int32_t>(),
                         [](int64_t value) { return static_cast<int32_t>(value); });
  return result;
}

std::vector<float> vector_of(const at::Tensor& tensor) {
  const float* values = tensor.const_data_ptr<float>();
  return {values, values + tensor.numel()};
}

at::Tensor flag(bool on) { return at::full({1}, on ? 1 : 0, at::kLong); }

bool has_no_scale(const Observer& observer) {
  return dynamic_cast<const PlaceholderObserver*>(&observer) != nullptr ||
         dynamic_cast<const NoopObserver*>(&observer) != nullptr ||
         dynamic_cast<const RecordingObserver*>(&observer) != nullptr;
}

const Observer& same_inner(const Observer& other) {
  return dynamic_cast<const FakeQuantize&>(other).observer();
}

constexpr int64_t kGradientGrain = 1 << 15;  // elements that are worth a thread

at::Tensor rounded(const at::Tensor& given, const FloatGrid& grid, const at::Tensor& inside) {
  const at::Tensor x = given.resolve_neg();
  at::Tensor result = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  uint8_t* marks = inside.defined() ? inside.mutable_data_ptr<uint8_t>() : nullptr;
  at::parallel_for(0, x.numel(), kGradientGrain, [=](int64_t begin, int64_t end) {
    round_to_grid(from + begin, end - begin, grid, to + begin,
                  marks == nullptr ? nullptr : marks + begin);
  });
  return result;
}

class StraightThrough : public torch::autograd::Function<StraightThrough> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            double scale, double low, double high) {
    const FloatGrid grid = {static_cast<float>(scale), static_cast<float>(low),
                            static_cast<float>(high)};
    const at::Tensor inside = at::empty_like(x, at::kByte);
    context->save_for_backward({inside});
    return rounded(x, grid, inside);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor inside = context->get_saved_variables()[0];
    const at::Tensor& gradient = gradients[0];
    if (c10::GradMode::is_enabled() || gradient.strides() != inside.strides() ||
        gradient.scalar_type() != at::kFloat)
      return {gradient * inside, {}, {}, {}};
    at::Tensor result = at::empty_like(gradient);
    const float* from = gradient.const_data_ptr<float>();
    const uint8_t* marks = inside.const_data_ptr<uint8_t>();
    float* to = result.mutable_data_ptr<float>();
    at::parallel_for(0, gradient.numel(), kGradientGrain, [=](int64_t begin, int64_t end) {
      keep_inside(from + begin, marks + begin, end - begin, to + begin);
    });
    return {result, {}, {}, {}};
  }
};

}  // namespace

FakeQuantize::FakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer)
    : FakeQuantize(std::move(args), std::move(observer), WithBlocks{}) {
  if (args_.choice.affine)
    throw Error("prepare", args_.choice.name,
                "this fake-quant works per tensor or per channel; use affine_fake_quantize");
}

FakeQuantize::FakeQuantize(ObserverArgs args, std::shared_ptr<Observer> observer, WithBlocks)
    : Observer(std::move(args), IntegerRange{observer->quant_min(), observer->quant_max()}),
      observer_(std::move(observer)) {
  if (has_no_scale(*observer_))
    throw Error("prepare", args_.choice.name,
                fmt::format("a fake-quant needs a scale, which {} does not have; use min_max",
                            observer_->args().choice.name));
  scale_ = at::ones({1}, at::kFloat);
  zero_point_ = at::zeros(
      {1}, args_.qscheme == QScheme::kPerChannelAffineFloatQParams ? at::kFloat : at::kInt);
}

void FakeQuantize::observe(const at::Tensor& x) {
  if (!observer_enabled_) return;
  observer_->observe(x);
  update_qparams();
}

at::Tensor FakeQuantize::forward(const at::Tensor& x) {
  observe(x.detach());
  return fake_quant_enabled_ && x.numel() > 0 ? round(x, 1) : x;
}

at::Tensor FakeQuantize::forward_part(const at::Tensor& x, const at::Tensor& ends, double share) {
  if (ends.defined()) observe(ends);
  return fake_quant_enabled_ && x.numel() > 0 ? round(x, share) : x;
}

at::Tensor FakeQuantize::round(const at::Tensor& x, double) {
  if (!is_per_channel(args_.qscheme))
    return fake_quantize_straight_through(x, scale_, zero_point_, quant_min_, quant_max_);
  if (!has_data()) return x;  // number of channels unknown, so no scale
  return at::fake_quantize_per_channel_affine(x, scale_, zero_point_, args_.ch_axis.value_or(0),
                                              quant_min_, quant_max_);
}

void FakeQuantize::update_qparams() {
  if (!has_data()) return;
  const QParams qparams = observer_->calculate_qparams();
  check_qparams(qparams, {quant_min_, quant_max_},
                fmt::format("the observer \"{}\"", observer_->args().choice.name));
  set_qparams(tensor_of(qparams.scale), qparams.float_zero_point.empty()
                                            ? tensor_of(qparams.zero_point)
                                            : tensor_of(qparams.float_zero_point));
}

void FakeQuantize::set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) {
  scale_ = scale.clone();
  zero_point_ = zero_point.clone();
}

void FakeQuantize::set_initial_range(const QParams& qparams) {
  ObserverState state;
  for (size_t i = 0; i < qparams.scale.size(); ++i) {
    const float zero_point = static_cast<float>(qparams.zero_point.at(i));
    state.min.push_back(qparams.scale[i] * (static_cast<float>(quant_min_) - zero_point));
    state.max.push_back(qparams.scale[i] * (static_cast<float>(quant_max_) - zero_point));
  }
  state.batches = 1;
  state.first_min = state.min;
  state.first_max = state.max;
  set_state(state);
}

void FakeQuantize::set_state(const ObserverState& state) {
  observer_->set_state(state);
  update_qparams();
}

void FakeQuantize::merge(const Observer& other) {
  check_mergeable(other);
  observer_->merge(same_inner(other));
  update_qparams();
}

FusedMovingAvgObsFakeQuantize::FusedMovingAvgObsFakeQuantize(ObserverArgs args,
                                                             std::shared_ptr<Observer> observer)
    : FakeQuantize(std::move(args), std::move(observer)) {
  const std::string& inner = observer_->args().choice.name;
  if (inner != "moving_average_min_max" && inner != "moving_average_per_channel_min_max")
    throw Error(
        "prepare", args_.choice.name,
        fmt::format("this fake-quant works with moving averages, got {}; use fake_quantize({})",
                    inner, inner));
  if (args_.qscheme == QScheme::kPerChannelAffineFloatQParams)
    throw Error("prepare", args_.choice.name,
                "this fake-quant has no float zero points; use fake_quantize");
  if (is_per_channel(args_.qscheme) && args_.ch_axis.value_or(0) != 0)
    throw Error(
        "prepare", args_.choice.name,
        fmt::format("this fake-quant supports channel axis 0 only, got {}; use fake_quantize",
                    *args_.ch_axis));
  reset_range();
}

void FusedMovingAvgObsFakeQuantize::reset_range() {
  if (has_data()) return update_qparams();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<int64_t> shape =
      is_per_channel(args_.qscheme) ? std::vector<int64_t>{0} : std::vector<int64_t>{};
  min_ = at::full(shape, infinity, at::kFloat);
  max_ = at::full(shape, -infinity, at::kFloat);
  scale_ = at::ones({1}, at::kFloat);
  zero_point_ = at::zeros({1}, at::kInt);
}

void FusedMovingAvgObsFakeQuantize::check_range() {
  if (at::isfinite(min_).all().item<bool>() && at::isfinite(max_).all().item<bool>()) return;
  reset_range();
  throw Error("calibrate", "", "the observed values hold NaN or infinities; want finite numbers");
}

at::Tensor FusedMovingAvgObsFakeQuantize::run_op(const at::Tensor& x, bool fake_quant) {
  return at::fused_moving_avg_obs_fake_quant(
      x, flag(observer_enabled_), flag(fake_quant), min_, max_, scale_, zero_point_,
      args_.choice.averaging_constant, quant_min_, quant_max_, args_.ch_axis.value_or(0),
      is_per_channel(args_.qscheme), is_symmetric(args_.qscheme));
}

// The op updates the moving average from the two ends of x, and scale and zero point from that when
// it also rounds; x itself is rounded in vectorized code.
at::Tensor FusedMovingAvgObsFakeQuantize::run_per_tensor(const at::Tensor& x,
                                                         const at::Tensor& seen, bool fake_quant) {
  {
    const at::NoGradGuard no_grad;
    at::Tensor ends = at::zeros({2});
    if (observer_enabled_) {
      const auto [low, high] = at::aminmax(seen);
      ends = at::stack({low, high});
    }
    run_op(ends, fake_quant);
  }
  return fake_quant && x.numel() > 0
             ? fake_quantize_straight_through(x, scale_, zero_point_, quant_min_, quant_max_)
             : x;
}

at::Tensor FusedMovingAvgObsFakeQuantize::run_per_channel(const at::Tensor& x,
                                                          const at::Tensor& seen, bool fake_quant) {
  if (x.is_same(seen)) return run_op(x, fake_quant);
  {
    const at::NoGradGuard no_grad;
    run_op(seen, fake_quant);
  }
  return fake_quant && x.numel() > 0 ? at::fake_quantize_per_channel_affine(
                                           x, scale_, zero_point_, 0, quant_min_, quant_max_)
                                     : x;
}

at::Tensor FusedMovingAvgObsFakeQuantize::run(const at::Tensor& x, const at::Tensor& seen,
                                              bool fake_quant) {
  if (seen.numel() == 0 || (!observer_enabled_ && !fake_quant)) return x;
  // the op would compute scale and zero point from an empty range
  if (!observer_enabled_ && !has_data()) return FakeQuantize::forward(x);
  ObserverState state = observer_->state();
  at::Tensor result;
  try {
    result = is_per_channel(args_.qscheme) ? run_per_channel(x, seen, fake_quant)
                                           : run_per_tensor(x, seen, fake_quant);
  } catch (const c10::Error&) {  // the op refuses NaN only after updating the range with it
    if (observer_enabled_) check_range();
    throw;
  }
  if (!observer_enabled_) return result;
  check_range();
  state.min = vector_of(min_);
  state.max = vector_of(max_);
  if (state.batches++ == 0) {
    state.first_min = state.min;
    state.first_max = state.max;
  }
  observer_->set_state(state);
  return result;
}

QParams FusedMovingAvgObsFakeQuantize::calculate_qparams() const {
  QParams qparams = FakeQuantize::calculate_qparams();
  if (!uses_trained_ || static_cast<int64_t>(qparams.scale.size()) != scale_.numel())
    return qparams;
  for (size_t i = 0; i < qparams.scale.size(); ++i) {
    const float scale = scale_.const_data_ptr<float>()[i];
    if (!(scale >= eps())) continue;
    qparams.scale[i] = scale;
    qparams.zero_point[i] = zero_point_.const_data_ptr<int32_t>()[i];
  }
  return qparams;
}

void FusedMovingAvgObsFakeQuantize::update_qparams() {
  if (!has_data()) return;
  FakeQuantize::update_qparams();
  const ObserverState state = observer_->state();
  const bool per_channel = is_per_channel(args_.qscheme);
  min_ = per_channel ? tensor_of(state.min) : tensor_of(state.min).squeeze(0);
  max_ = per_channel ? tensor_of(state.max) : tensor_of(state.max).squeeze(0);
  // The op computes scale and zero point from the range; an average of weight 0 does not change it.
  at::fused_moving_avg_obs_fake_quant(per_channel ? at::zeros({min_.numel(), 1}) : at::zeros({1}),
                                      flag(true), flag(true), min_, max_, scale_, zero_point_, 0,
                                      quant_min_, quant_max_, 0, per_channel,
                                      is_symmetric(args_.qscheme));
}

FixedQParamsFakeQuantize::FixedQParamsFakeQuantize(const FixedQParamsQuantizationSpec& spec)
    : FakeQuantize(make_observer(spec)->args(), make_observer(spec)) {
  FakeQuantize::update_qparams();
}

WrappedName split_observer_name(const std::string& name) {
  const size_t open = name.find('(');
  if (open == std::string::npos || name.back() != ')') return {name, ""};
  return {name.substr(0, open), name.substr(open + 1, name.size() - open - 2)};
}

const char* moving_average_name(QScheme qscheme) {
  return is_per_channel(qscheme) ? "moving_average_per_channel_min_max" : "moving_average_min_max";
}

std::shared_ptr<Observer> make_inner_observer(ObserverArgs args, const char* otherwise) {
  const std::string inner = split_observer_name(args.choice.name).inner;
  args.choice.name = inner.empty() ? otherwise : inner;
  return make_observer(args);
}

std::shared_ptr<Observer> make_fake_quantize(const ObserverArgs& args) {
  return std::make_shared<FakeQuantize>(
      args, make_inner_observer(args, moving_average_name(args.qscheme)));
}

std::shared_ptr<Observer> make_fused_fake_quantize(const ObserverArgs& args) {
  const bool is_averaged = split_observer_name(args.choice.name).inner.empty();
  // the op supports axis 0 only
  if (is_averaged && is_per_channel(args.qscheme) && args.ch_axis.value_or(0) != 0)
    return make_fake_quantize(args);
  return std::make_shared<FusedMovingAvgObsFakeQuantize>(
      args, make_inner_observer(args, moving_average_name(args.qscheme)));
}

void enable_observers(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled) {
  for (const std::shared_ptr<Observer>& observer : observers)
    if (FakeQuantize* fake_quant = dynamic_cast<FakeQuantize*>(observer.get()))
      fake_quant->enable_observer(enabled);
}

void enable_fake_quants(const std::vector<std::shared_ptr<Observer>>& observers, bool enabled) {
  for (const std::shared_ptr<Observer>& observer : observers)
    if (FakeQuantize* fake_quant = dynamic_cast<FakeQuantize*>(observer.get()))
      fake_quant->enable_fake_quant(enabled);
}

void use_trained_qparams(const std::vector<std::shared_ptr<Observer>>& observers) {
  for (const std::shared_ptr<Observer>& observer : observers)
    if (FusedMovingAvgObsFakeQuantize* fused =
            dynamic_cast<FusedMovingAvgObsFakeQuantize*>(observer.get()))
      fused->use_trained_qparams();
}

at::Tensor fake_quantize_straight_through(const at::Tensor& x, const at::Tensor& scale,
                                          const at::Tensor& zero_point, int64_t quant_min,
                                          int64_t quant_max) {
  const int64_t offset = zero_point.item<int64_t>();
  const int64_t low = quant_min - offset;
  const int64_t high = quant_max - offset;
  const bool fits = x.scalar_type() == at::kFloat && x.is_non_overlapping_and_dense() &&
                    std::abs(low) <= kGridLimit && std::abs(high) <= kGridLimit;
  if (!fits) return at::fake_quantize_per_tensor_affine(x, scale, zero_point, quant_min, quant_max);
  const float step = scale.item<float>();
  if (c10::GradMode::is_enabled() && x.requires_grad())
    return StraightThrough::apply(x, step, low, high);
  return rounded(x, {step, static_cast<float>(low), static_cast<float>(high)}, {});
}

}  // namespace octet
