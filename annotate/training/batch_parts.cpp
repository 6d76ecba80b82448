#include "annotate/training/batch_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <unordered_set>

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/min_max.h"
#include "core/base/error.h"

namespace octet {
namespace {

// Norms that keep statistics of the batch, other than aten.batch_norm.
constexpr std::array<std::string_view, 6> kOtherNorms = {"aten.native_batch_norm",
                                                         "aten._native_batch_norm_legit",
                                                         "aten._native_batch_norm_legit_functional",
                                                         "aten._batch_norm_with_update",
                                                         "aten._batch_norm_with_update_functional",
                                                         "aten.instance_norm"};

bool has_body(const Node& node) {
  return std::ranges::any_of(node.arguments(), [](const NamedArgument& argument) {
    return argument.value.find<Subgraph>() != nullptr;
  });
}

bool is_other_norm(const Node& node) {
  return std::ranges::any_of(kOtherNorms, [&](std::string_view op) { return node.is(op); }) &&
         node.find_input("running_mean") != nullptr;
}

// [2 * n], minima first, then negated maxima, so that one exchange of minima serves both.
std::vector<float> ends_of(const Observer& observer, const at::Tensor& x) {
  at::Tensor low, high;
  if (observer.sees() == Sees::kEnds)
    std::tie(low, high) = at::aminmax(x);
  else
    std::tie(low, high) = at::aminmax(channel_rows(x, observer.args().ch_axis.value_or(0)), 1);
  const at::Tensor lows = low.to(at::kFloat).reshape(-1).contiguous();
  const at::Tensor highs = (-high).to(at::kFloat).reshape(-1).contiguous();
  std::vector<float> ends(lows.const_data_ptr<float>(),
                          lows.const_data_ptr<float>() + lows.numel());
  ends.insert(ends.end(), highs.const_data_ptr<float>(),
              highs.const_data_ptr<float>() + highs.numel());
  return ends;
}

// A tensor with these ends: [2], or [channels, 2] with the channels at dimension `axis`.
at::Tensor tensor_of_ends(const std::vector<float>& ends, bool is_per_channel, int64_t axis) {
  const int64_t count = static_cast<int64_t>(ends.size() / 2);
  at::Tensor result = at::empty({count, 2}, at::kFloat);
  float* numbers = result.data_ptr<float>();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    numbers[2 * i] = ends[i];
    numbers[2 * i + 1] = -ends[static_cast<size_t>(count) + i];
  }
  if (!is_per_channel) return result.view({2});
  std::vector<int64_t> shape(static_cast<size_t>(axis) + 2, 1);
  shape.front() = count;
  shape.back() = 2;
  return result.view(shape).transpose(0, axis);
}

// Batch norm over all parts, with n values per channel, xhat = (x - mean) * invstd, and sums over
// all parts:
//   y = gamma * xhat + beta
//   dx = gamma * invstd * (dy - (sum(dy) + xhat * sum(dy * xhat)) / n)

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

std::span<double> span_of(at::Tensor& numbers) {
  return {numbers.data_ptr<double>(), static_cast<size_t>(numbers.numel())};
}

struct Statistics {
  at::Tensor mean, variance;  // [channels]; the variance is the biased one
  double count = 0;           // values per channel
};

// Combines the parts' means and variances; sums of squares around the mean, in doubles, avoid
// cancellation.
Statistics statistics_of(const at::Tensor& x, double eps, BatchParts& parts) {
  const at::NoGradGuard no_grad;
  const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, eps);
  const int64_t channels = mean.numel();
  const double own = static_cast<double>(x.numel()) / static_cast<double>(channels);
  at::Tensor sums = at::zeros({2 * channels + 1}, at::kDouble);
  if (parts.part().counts) {
    const at::Tensor wide = mean.to(at::kDouble);
    sums.narrow(0, 0, channels).copy_(wide * own);
    sums.narrow(0, channels, channels).copy_((variance.to(at::kDouble) + wide * wide) * own);
    sums[2 * channels] = own;
  }
  parts.sum(span_of(sums));
  const double count = sums[2 * channels].item<double>();
  const at::Tensor all = sums.narrow(0, 0, channels) / count;
  const at::Tensor squares = sums.narrow(0, channels, channels) / count;
  return {all.to(mean.scalar_type()), (squares - all * all).clamp_min(0).to(variance.scalar_type()),
          count};
}

at::Tensor per_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[1] = -1;
  return values.to(like.scalar_type()).view(shape);
}

// slope * x + offset, in one pass.
at::Tensor scaled(const at::Tensor& x, const at::Tensor& slope, const at::Tensor& offset) {
  const at::Tensor zeros = at::zeros({slope.numel()}, x.options());
  return std::get<0>(at::native_batch_norm(x, slope.to(x.scalar_type()), offset.to(x.scalar_type()),
                                           zeros, at::ones_like(zeros), false, 0, 0));
}

class SharedBatchNorm : public torch::autograd::Function<SharedBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma,
                            const at::Tensor& beta, const Statistics& statistics, double eps,
                            BatchParts* parts) {
    context->save_for_backward({x, gamma, statistics.mean, statistics.variance});
    context->saved_data["eps"] = eps;
    context->saved_data["count"] = statistics.count;
    context->saved_data["has_beta"] = beta.defined();
    context->saved_data["parts"] = reinterpret_cast<int64_t>(parts);
    return std::get<0>(
        at::native_batch_norm(x, gamma, beta, statistics.mean, statistics.variance, false, 0, eps));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gamma = saved[1], &mean = saved[2], &variance = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    BatchParts& parts = *reinterpret_cast<BatchParts*>(context->saved_data["parts"].toInt());
    const at::Tensor& dy = gradients[0];
    const auto [none, of_gamma, of_beta] = at::native_batch_norm_backward(
        dy, x, gamma, mean, variance, {}, {}, false, eps, {false, true, true});
    at::Tensor sums = at::cat({of_beta, of_gamma}).to(at::kDouble);
    parts.sum(span_of(sums));
    const int64_t channels = mean.numel();
    sums /= context->saved_data["count"].toDouble();
    const at::Tensor invstd = (variance.to(at::kDouble) + eps).rsqrt();
    const at::Tensor weight = gamma.defined() ? gamma.to(at::kDouble) * invstd : invstd;
    at::Tensor dx;
    if (parts.part().counts) {
      // dx = weight * dy + slope * x + offset
      const at::Tensor slope = -weight * invstd * sums.narrow(0, channels, channels);
      const at::Tensor offset =
          -weight * sums.narrow(0, 0, channels) - slope * mean.to(at::kDouble);
      dx = scaled(x, slope, offset).addcmul_(dy, per_channel(weight, dy));
    } else {
      dx = dy * per_channel(weight, dy);
    }
    return {dx,
            gamma.defined() ? of_gamma : Variable(),
            context->saved_data["has_beta"].toBool() ? of_beta : Variable(),
            Variable(),
            Variable(),
            Variable()};
  }
};

at::Tensor tensor_or_none(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

void update(const at::Tensor& running, const at::Tensor& value, double momentum) {
  if (running.defined()) running.mul_(1 - momentum).add_(value.to(running.scalar_type()), momentum);
}

}  // namespace

void check_parts(const ObservedGraph& prepared) {
  for (const Node* node : prepared.graph.nodes()) {
    if (has_body(*node))
      throw Error("train", "%" + node->name(),
                  "branches and loops cannot be trained in several processes, which could take "
                  "different branches; start one");
    if (is_other_norm(*node))
      throw Error("train", "%" + node->name(),
                  fmt::format("the statistics of {} cannot be shared among processes; export "
                              "without decompositions, or start one",
                              node->target()));
  }
  const std::set<std::string> shared = points_of_batch(prepared.graph);
  for (const Node* point : observer_nodes(prepared.graph)) {
    const Observer& observer = *prepared.observers.at(static_cast<size_t>(group_of(*point)));
    if (shared.contains(point->name()) && observer.sees() == Sees::kAll)
      throw Error("train", "%" + observed_value(*point)->name(),
                  fmt::format("{} looks at more than minimum and maximum, which several processes "
                              "do not share; use moving_average_min_max, or start one",
                              observer.args().choice.name));
  }
}

std::set<std::string> points_of_batch(const Graph& prepared) {
  std::unordered_set<const Value*> of_batch;
  for (const GraphInput& input : prepared.inputs())
    if (input.kind == InputKind::kUserInput && input.value != nullptr) of_batch.insert(input.value);
  std::set<std::string> points;
  for (const Node* node : prepared.nodes()) {
    const std::vector<Value*> inputs = node->inputs();
    if (std::ranges::none_of(inputs, [&](const Value* input) { return of_batch.contains(input); }))
      continue;
    for (const Value* output : node->outputs()) of_batch.insert(output);
    if (node->is(kObserveTarget)) points.insert(node->name());
  }
  return points;
}

at::Tensor forward_part(Observer& observer, const at::Tensor& x, BatchParts& parts) {
  if (observer.sees() == Sees::kNothing) return observer.forward(x);
  const double share = parts.part().share;
  if (!observer.observes()) return observer.forward_part(x, at::Tensor(), share);
  const bool is_per_channel = observer.sees() == Sees::kChannelEnds;
  const int64_t axis = observer.args().ch_axis.value_or(0);
  std::vector<float> ends;
  if (x.numel() > 0) {
    ends = ends_of(observer, x.detach());
  } else {
    const size_t count = is_per_channel ? static_cast<size_t>(x.size(axis)) : 1;
    ends.assign(2 * count, std::numeric_limits<float>::infinity());
  }
  const bool is_finite = std::ranges::all_of(ends, [](float end) { return std::isfinite(end); });
  if (!is_finite && x.numel() > 0) {
    observer.forward(x);
    throw Error("train", "", "the observed values hold NaN or infinities; want finite numbers");
  }
  parts.min(ends);
  at::Tensor seen;
  if (std::isfinite(ends.front())) seen = tensor_of_ends(ends, is_per_channel, axis);
  return observer.forward_part(x, seen, share);
}

std::vector<c10::IValue> run_shared_batch_norm(const Node& node,
                                               const std::vector<c10::IValue>& arguments,
                                               BatchParts& parts) {
  // input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
  const at::Tensor x = arguments.at(0).toTensor();
  const at::Tensor gamma = tensor_or_none(arguments.at(1)), beta = tensor_or_none(arguments.at(2));
  const at::Tensor mean = tensor_or_none(arguments.at(3));
  const at::Tensor variance = tensor_or_none(arguments.at(4));
  const double momentum = arguments.at(6).toDouble(), eps = arguments.at(7).toDouble();
  if (!arguments.at(5).toBool())
    return {at::batch_norm(x, gamma, beta, mean, variance, false, momentum, eps, false)};
  const Statistics statistics = statistics_of(x, eps, parts);
  if (statistics.count < 2)
    throw Error(
        "train", "%" + node.name(),
        "a batch norm needs two values per channel to learn from, got 1; give larger batches");
  {
    const at::NoGradGuard no_grad;
    update(mean, statistics.mean, momentum);
    update(variance, statistics.variance * (statistics.count / (statistics.count - 1)), momentum);
  }
  return {SharedBatchNorm::apply(x, gamma, beta, statistics, eps, &parts)};
}

}  // namespace octet
