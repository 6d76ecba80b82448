#include "annotate/accuracy/fake_quant_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>

#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/weight_grid.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/observe_op.h"
#include "annotate/observed/point_qparams.h"

namespace octet {
namespace {

bool has_one_static_scale(const Observer& observer) {
  const ObserverArgs& args = observer.args();
  return !args.is_dynamic && is_integer(args.dtype) && size_of(args.dtype) <= 4 &&
         !is_per_channel(args.qscheme) && !args.choice.affine;
}

std::unordered_set<int> find_constant_groups(const Graph& graph) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::unordered_set<int> groups;
  std::unordered_set<int> others;
  for (const Node* point : observer_nodes(graph))
    (constants.contains(point->output()) ? groups : others).insert(group_of(*point));
  for (const int group : others) groups.erase(group);
  return groups;
}

}  // namespace

FakeQuantRun::FakeQuantRun(const ObservedGraph& observed,
                           std::vector<std::vector<c10::IValue>> batches)
    : observed_(observed),
      constant_groups_(find_constant_groups(observed.graph)),
      run_(std::move(*clone(observed.graph)), std::move(batches),
           {{std::string(kObserveTarget),
             [this](const Node& point, const std::vector<c10::IValue>& arguments) {
               return std::vector<c10::IValue>{round(point, arguments.at(0).toTensor())};
             }}}) {}

void FakeQuantRun::settle_before(int group) {
  for (const Node* node : run_.graph().nodes()) {
    if (!is_observer_node(node) || group_of(*node) != group) continue;
    run_.run_to(*node, false);
    return;
  }
}

at::Tensor FakeQuantRun::round(const Node& point, const at::Tensor& x) {
  if (constant_groups_.contains(group_of(point))) return round_constant(point, x);
  const int group = group_of(point);
  const Observer& observer = *observed_.observers[static_cast<size_t>(group)];
  if (!has_one_static_scale(observer) || !observer.has_data()) return x;
  auto known = rounding_.find(group);
  if (known == rounding_.end()) {
    const QParams qparams = qparams_at(point, observer);
    known =
        rounding_.emplace(group, Rounding{qparams.scale.front(), qparams.zero_point.front()}).first;
  }
  return at::fake_quantize_per_tensor_affine(x, known->second.scale, known->second.zero_point,
                                             observer.quant_min(), observer.quant_max());
}

at::Tensor FakeQuantRun::round_constant(const Node& point, const at::Tensor& x) {
  const auto known = rounded_constants_.find(point.name());
  if (known != rounded_constants_.end()) return known->second;
  const Observer& observer = *observed_.observers[static_cast<size_t>(group_of(point))];
  at::Tensor rounded = x;
  if (observer.has_data() && has_weight_grid(observer, x)) {
    const WeightGrid grid = weight_grid(observer, x, "%" + observed_value(point)->name());
    rounded = grid.values(grid.nearest(x)).to(x.scalar_type());
  }
  return rounded_constants_.emplace(point.name(), rounded).first->second;
}

double relative_error(const std::vector<c10::IValue>& expected,
                      const std::vector<c10::IValue>& actual, const at::Tensor& mask) {
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].isTensor() || !expected[i].toTensor().is_floating_point()) continue;
    const at::Tensor want = rows_that_count(expected[i].toTensor(), mask).to(at::kDouble);
    const double energy = want.square().sum().item<double>();
    const double squared = (rows_that_count(actual.at(i).toTensor(), mask).to(at::kDouble) - want)
                               .square()
                               .sum()
                               .item<double>();
    error += energy > 0 ? squared / energy : squared;
  }
  return error;
}

}  // namespace octet
