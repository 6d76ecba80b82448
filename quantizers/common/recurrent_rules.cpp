#include "quantizers/common/recurrent_rules.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "quantizers/common/checks.h"

namespace octet {

namespace {

const std::vector<std::string> kOps = {
    "aten.lstm",      "aten.gru",      "aten.rnn_tanh",      "aten.rnn_relu",
    "aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell",
};
constexpr std::array<std::string_view, 2> kInputs = {"input", "data"};  // data: packed sequences
constexpr std::array<std::string_view, 3> kWeights = {"params", "w_ih", "w_hh"};

bool is_recurrent(const Node& node) {
  return std::ranges::any_of(kOps, [&](const std::string& op) { return node.is(op); });
}

Value* input_of(const Node& node) {
  for (const std::string_view name : kInputs)
    if (Value* input = node.find_input(name)) return input;
  return nullptr;
}

// The matrices among the parameters; tensors of unknown shape are included.
std::vector<Value*> weights_of(const Node& node) {
  std::vector<Value*> weights;
  for (const std::string_view name : kWeights) {
    const Argument* argument = node.find_argument(name);
    if (argument == nullptr) continue;
    for_each_value(*argument, [&](Value* value) {
      const bool is_matrix = !value->meta || value->meta->sizes.size() == 2;
      if (is_matrix && std::ranges::find(weights, value) == weights.end()) weights.push_back(value);
    });
  }
  return weights;
}

bool is_float32(const Value* value) {
  return value->kind() == ValueKind::kTensor && value->meta &&
         value->meta->dtype == DType::kFloat32;
}

// Elements per row that share a scale; 0: all.
int64_t group_size(const QuantizationConfig& config) {
  const std::optional<AffineOptions>& affine = config.weight->observer_or_fake_quant_ctr.affine;
  return affine && affine->granularity.kind == Granularity::Kind::kPerGroup
             ? affine->granularity.group_size
             : 0;
}

// Empty when the op can be annotated.
std::string objection(const Graph& graph, const Value* input, const std::vector<Value*>& weights,
                      const QuantizationConfig& config) {
  if (!config.weight) return "its configuration has no spec for weights";
  if (is_floating_point(config.weight->dtype))
    return fmt::format("its weights would be {}, want integers", name_of(config.weight->dtype));
  if (input == nullptr || weights.empty()) return "its input or its weights are not given";
  if (!is_float32(input)) return fmt::format("input %{} is not float32", input->name());
  for (const Value* weight : weights) {
    if (!is_float32(weight)) return fmt::format("weight %{} is not float32", weight->name());
    const int64_t group = group_size(config);
    const int64_t columns = weight->meta->shape().back();
    if (group > 0 && columns % group != 0)
      return fmt::format("weight %{} has rows of {}, want a multiple of the group size {}",
                         weight->name(), columns, group);
    if (graph.find_constant(weight) == nullptr || !is_of_constants(graph, weight))
      return fmt::format("weight %{} is computed at run time, want a constant", weight->name());
  }
  return {};
}

QuantizationSpec recurrent_weight_spec(const QuantizationConfig& config) {
  QuantizationSpec spec = *config.weight;
  if (spec.qscheme && is_per_channel(*spec.qscheme)) spec.ch_axis = 0;
  return spec;
}

// The first input of each cell, by the weight that its steps have in common. One step sees only a
// part of what the layer reads, so all steps share one observer.
class FirstSteps {
 public:
  SpecVariant input_spec(const Value* weight, Edge input, const QuantizationSpec& spec) {
    if (spec.is_dynamic) return spec;
    const auto [first, is_new] = steps_.try_emplace(weight, Step{input, spec});
    if (is_new || first->second.spec != spec) return spec;
    return SharedQuantizationSpec{first->second.input};
  }

 private:
  struct Step {
    Edge input;
    QuantizationSpec spec;
  };
  std::unordered_map<const Value*, Step> steps_;
};

bool is_cell(const Node& node) { return node.find_argument("w_ih") != nullptr; }

}  // namespace

int annotate_recurrent(Graph& graph, const NodeConfig& config_of, Annotations& annotations,
                       RuleState& state) {
  int count = 0;
  FirstSteps first_steps;
  for (Node* node : graph.nodes()) {
    if (!is_recurrent(*node) || annotations.is_annotated(node)) continue;
    const ConfigChoice choice = config_of(*node);
    if (choice.config == nullptr) {
      if (!choice.reason.empty()) state.refusals[node] = choice.reason;
      continue;
    }
    Value* input = input_of(*node);
    const std::vector<Value*> weights = weights_of(*node);
    if (const std::string reason = objection(graph, input, weights, *choice.config);
        !reason.empty()) {
      state.refusals[node] = reason;
      continue;
    }
    QuantizationAnnotation annotation;
    annotation.rule = "recurrent";
    if (const std::optional<QuantizationSpec>& spec = choice.config->input_activation)
      annotation.set_input(
          input, is_cell(*node) ? first_steps.input_spec(weights.front(), {input, node}, *spec)
                                : SpecVariant(*spec));
    for (Value* weight : weights)
      annotation.set_input(weight, recurrent_weight_spec(*choice.config));
    annotations[node] = std::move(annotation);
    ++count;
  }
  return count;
}

}  // namespace octet
