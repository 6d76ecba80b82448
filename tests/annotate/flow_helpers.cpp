#include "annotate/flow_helpers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/prepare/prepare.h"
#include "core/interpreter/aten_bridge.h"
#include "support/rule_quantizer.h"

namespace octet::test {

using Json = nlohmann::ordered_json;

Json act_spec(int quant_min, int quant_max) {
  return {{"kind", "spec"},         {"dtype", "int8"},        {"qscheme", "per_tensor_affine"},
          {"quant_min", quant_min}, {"quant_max", quant_max}, {"observer", "MinMaxObserver"}};
}

Json weight_spec() {
  Json spec = act_spec(-127, 127);
  spec["qscheme"] = "per_tensor_symmetric";
  return spec;
}

Json per_channel_weight_spec() {
  Json spec = act_spec(-127, 127);
  spec["qscheme"] = "per_channel_symmetric";
  spec["ch_axis"] = 0;
  spec["observer"] = "PerChannelMinMaxObserver";
  return spec;
}

Json linear_rules() {
  return Json::array({{{"target", "aten.linear.default"},
                       {"inputs", {{"0", act_spec()}, {"1", per_channel_weight_spec()}}},
                       {"output", act_spec()}}});
}

Json dynamic_spec() {
  Json spec = act_spec();
  spec["is_dynamic"] = true;
  spec["observer"] = "PlaceholderObserver";
  return spec;
}

std::vector<c10::IValue> random_inputs(const Graph& graph, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<c10::IValue> inputs;
  for (const Value* input : graph.user_inputs())
    inputs.emplace_back(at::randn(input->meta->shape(), generator, at::dtype(at::kFloat)));
  return inputs;
}

void fill_floats(Graph& graph) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (auto& [fqn, constant] : graph.constants)
    if (constant.tensor.dtype() == DType::kFloat32)
      constant.tensor =
          from_aten(at::randn(constant.tensor.shape(), generator, at::dtype(at::kFloat)));
}

Graph quantize(Graph graph, const Json& rules, ConvertOptions options, Report& report) {
  RuleQuantizer quantizer(rules);
  ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  calibrate(observed, {random_inputs(observed.graph, 5), random_inputs(observed.graph, 6)});
  return convert_pt2e(std::move(observed), options, report);
}

Graph quantize(Graph graph, const Json& rules, ConvertOptions options) {
  Report report;
  return quantize(std::move(graph), rules, options, report);
}

std::string targets(const Graph& graph) {
  std::string result;
  for (const Node* node : graph.nodes())
    result += (result.empty() ? "" : " ") + node->target().substr(node->target().find('.') + 1);
  return result;
}

int count_of(const Graph& graph, std::string_view target) {
  const bool is_prefix = target.ends_with('*');
  if (is_prefix) target.remove_suffix(1);
  int count = 0;
  for (const Node* node : graph.nodes())
    count += is_prefix ? node->target().starts_with(target) : node->target() == target;
  return count;
}

}  // namespace octet::test
