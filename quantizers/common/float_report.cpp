// Finds the reasons, most specific first.
#include "quantizers/common/float_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/float_ops.h"
#include "core/ops/weighted_ops.h"
#include "quantizers/common/weight_only.h"

namespace octet {

namespace {

using Constants = std::unordered_set<const Value*>;

// Ops with weights that core/ops/weighted_ops.h does not list.
const std::vector<std::string> kMoreWeightOps = {
    "aten.embedding_bag", "aten.lstm",          "aten.gru",
    "aten.rnn_tanh",      "aten.rnn_relu",      "aten.lstm_cell",
    "aten.gru_cell",      "aten.rnn_tanh_cell", "aten.rnn_relu_cell"};

const std::vector<std::string> kPicks = {"aten.index", "aten.index_select", "aten.gather",
                                         "aten.embedding"};

// clang-format off
const std::vector<std::string> kComputeOps = {
    "aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution", "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d",
    "aten.linear", "aten.matmul", "aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm", "aten.einsum", "aten.scaled_dot_product_attention",
    "aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu", "aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell",
    "aten.embedding", "aten.embedding_bag",
    "aten.add", "aten.sub", "aten.rsub", "aten.mul", "aten.div", "aten.pow", "aten.sqrt", "aten.rsqrt", "aten.exp", "aten.maximum", "aten.minimum",
    "aten.relu", "aten.relu6", "aten.hardtanh", "aten.clamp", "aten.leaky_relu", "aten.prelu", "aten.elu", "aten.gelu", "aten.silu", "aten.mish",
    "aten.sigmoid", "aten.tanh", "aten.hardswish", "aten.hardsigmoid", "aten.softmax", "aten.log_softmax", "aten._softmax", "aten._log_softmax",
    "aten.batch_norm", "aten.layer_norm", "aten.group_norm", "aten.instance_norm", "aten.rms_norm",
    "aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d",
    "aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_max_pool2d", "aten.mean", "aten.sum", "aten.cat", "aten.stack",
    "aten.upsample_nearest2d", "aten.upsample_bilinear2d",
};
// clang-format on

bool is_one_of(const Node& node, std::span<const std::string> ops) {
  return std::ranges::any_of(ops, [&](const std::string& op) { return node.is(op); });
}

// Whether the op is a product in which each factor may be an activation.
bool is_product(const Node& node) {
  const WeightedOp* row = find_weighted_op(node);
  return node.is("aten.einsum") || (row != nullptr && (row->form == WeightForm::kProduct ||
                                                       row->form == WeightForm::kColumns));
}

bool has_weight(const Node& node, const Constants& constants) {
  if (is_one_of(node, kMoreWeightOps)) return true;
  if (!is_product(node)) return find_weighted_op(node) != nullptr;
  const std::vector<Value*> inputs = node.inputs();
  return std::ranges::any_of(inputs, [&](const Value* value) { return constants.contains(value); });
}

bool has_static_activations(const QuantizationConfig& config) {
  return (config.input_activation && !config.input_activation->is_dynamic) ||
         (config.output_activation && !config.output_activation->is_dynamic);
}

// Whether the op's configuration does not cover it because of its mode.
bool is_left_by_mode(const Node& node, const ConfigTable::Choice& choice,
                     const FloatReportArgs& args, const Constants& constants) {
  return args.has_modes && choice.config && !has_static_activations(*choice.config) &&
         !has_weight(node, constants);
}

// Ops on constants alone are computed ahead.
bool computes_on_data(const Node& node, const Constants& constants) {
  const std::vector<Value*> outputs = node.outputs();
  return computes_on_floats(node) && std::ranges::none_of(outputs, [&](const Value* value) {
           return constants.contains(value);
         });
}

// Whether a factor of the product is selected from a constant by a computed index, as a token's
// experts are.
bool has_picked_weight(const Node& node, const Constants& constants) {
  if (!is_product(node)) return false;
  const std::vector<Value*> inputs = node.inputs();
  return std::ranges::any_of(inputs, [&](const Value* value) {
    const Node* pick = value->producer();
    return pick != nullptr && is_one_of(*pick, kPicks) &&
           constants.contains(pick->inputs().front()) && !constants.contains(value);
  });
}

std::string reason_for(const Node& node, const ConfigTable::Choice& choice, bool by_mode,
                       const FloatReportArgs& args, const Constants& constants) {
  if (!choice.config) return choice.reason;
  if (args.filter && !args.filter(node)) return "excluded by the filter function";
  if (has_picked_weight(node, constants)) return "its weights are picked at run time, by index";
  const std::unordered_map<const Node*, std::string>::const_iterator refusal =
      args.state.refusals.find(&node);
  if (refusal != args.state.refusals.end()) return refusal->second;
  if (by_mode && is_weight_only(*choice.config)) return kWeightsAlone;
  if (by_mode)
    return "its configuration is dynamic or of float16 weights, which is for ops with weights, and "
           "it has none";
  if (is_one_of(node, args.sharing_ops)) {
    const std::vector<Value*> inputs = node.inputs();
    if (!inputs.empty())
      return fmt::format("it shares the scale of its input, and %{} is not quantized",
                         inputs.front()->name());
  }
  return fmt::format("no rule of {} matches {}", args.quantizer, node.target());
}

}  // namespace

std::span<const std::string> compute_ops() { return kComputeOps; }

void report_float_nodes(const Graph& graph, const Annotations& annotations,
                        const FloatReportArgs& args, Report& report) {
  const Constants constants = find_constant_values(graph);
  for (const Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    const bool is_taken =
        annotation && (annotation->annotated || !annotation->input_qspec_map.empty());
    if (is_taken) continue;
    const ConfigTable::Choice choice = args.configs.find(*node);
    const bool by_mode = is_left_by_mode(*node, choice, args, constants);
    if (!is_one_of(*node, args.compute_ops) && !(by_mode && computes_on_data(*node, constants)))
      continue;
    report.add({by_mode ? kModeStage : "annotate", node->name(), node->target(),
                innermost_module(*node), reason_for(*node, choice, by_mode, args, constants)});
  }
  for (const std::string& row : args.configs.unused_rows(graph))
    report.note(fmt::format("{} applies to no node", row));
}

}  // namespace octet
