#include "annotate/training/shared_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <unordered_set>
#include <vector>

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "annotate/graph/observe_op.h"
#include "annotate/observers/per_channel.h"
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
  return std::any_of(
      node.arguments().begin(), node.arguments().end(),
      [](const NamedArgument& argument) { return argument.value.find<Subgraph>() != nullptr; });
}

bool is_other_norm(const Node& node) {
  return std::any_of(kOtherNorms.begin(), kOtherNorms.end(),
                     [&](std::string_view op) { return node.is(op); }) &&
         node.find_input("running_mean") != nullptr;
}

// Maxima are negated, so that one exchange of minima serves both: [2 * n], minima first.
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

}  // namespace

void check_parts(const ObservedGraph& prepared) {
  for (const Node* node : prepared.graph.nodes()) {
    if (has_body(*node))
      throw Error("train", "%" + node->name(),
                  "branches and loops cannot be trained in several processes, which could take "
                  "different ways; start one");
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
    if (std::none_of(inputs.begin(), inputs.end(),
                     [&](const Value* input) { return of_batch.contains(input); }))
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
  const bool is_finite =
      std::all_of(ends.begin(), ends.end(), [](float end) { return std::isfinite(end); });
  if (!is_finite && x.numel() > 0) {
    observer.forward(x);
    throw Error("train", "", "the observed values hold NaN or infinities; want finite numbers");
  }
  parts.min(ends);
  at::Tensor seen;
  if (std::isfinite(ends.front())) seen = tensor_of_ends(ends, is_per_channel, axis);
  return observer.forward_part(x, seen, share);
}

}  // namespace octet
