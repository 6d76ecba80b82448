#include "annotate/accuracy/rounding_cases.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>

#include "annotate/accuracy/stepwise_run.h"
#include "annotate/flow_helpers.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

namespace octet::test {
namespace {

constexpr int64_t kFactors = 4;

// (argument of the weight, argument of the input)
std::optional<std::pair<std::string, std::string>> operands_of(const Node& node) {
  if (node.is("aten.linear") || node.is("aten.conv1d") || node.is("aten.conv2d") ||
      node.is("aten.conv3d"))
    return {{"weight", "input"}};
  if (node.is("aten.mm")) return {{"mat2", "self"}};
  if (node.is("aten.addmm")) return {{"mat2", "mat1"}};
  return std::nullopt;
}

}  // namespace

QuantizationSpec int8_activation() {
  QuantizationSpec spec;
  spec.qscheme = QScheme::kPerTensorAffine;
  return spec;
}

QuantizationSpec channel_weight(int64_t quant_max, int ch_axis) {
  QuantizationSpec spec;
  spec.observer_or_fake_quant_ctr.name = "per_channel_min_max";
  spec.qscheme = QScheme::kPerChannelSymmetric;
  spec.ch_axis = ch_axis;
  spec.quant_min = -quant_max;
  spec.quant_max = quant_max;
  return spec;
}

QuantizationSpec group_weight(int64_t group_size) {
  QuantizationSpec spec;
  spec.observer_or_fake_quant_ctr.name = "affine_min_max";
  AffineOptions& options = spec.observer_or_fake_quant_ctr.affine.emplace();
  options.granularity = {
      .kind = Granularity::Kind::kPerGroup, .group_size = group_size, .block_size = {}};
  options.mapping_type = MappingType::kSymmetric;
  spec.quant_min = -8;
  spec.quant_max = 7;
  return spec;
}

ObservedGraph observe_layers(const std::string& text, const std::optional<QuantizationSpec>& act,
                             const QuantizationSpec& weight) {
  Graph graph = parse_graph(text);
  fill_floats(graph);
  Annotations annotations;
  for (Node* node : graph.nodes()) {
    const auto operands = operands_of(*node);
    if (!operands) continue;
    QuantizationAnnotation& annotation = annotations[node];
    annotation.set_input(node->find_input(operands->first), weight);
    if (act) annotation.set_input(node->find_input(operands->second), *act);
  }
  Report report;
  return insert_observers(std::move(graph), std::move(annotations), report);
}

ObservedGraph prepare(Graph graph, const nlohmann::ordered_json& rules) {
  RuleQuantizer quantizer(rules);
  Report report;
  return prepare_pt2e(std::move(graph), quantizer, report);
}

Batches random_batches(const Graph& graph, uint64_t first, size_t count) {
  Batches batches;
  for (size_t i = 0; i < count; ++i) batches.push_back(random_inputs(graph, first + i));
  return batches;
}

Batches correlated_batches(const Graph& graph, int64_t dim, size_t count, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const std::vector<int64_t> shape = graph.user_inputs().front()->meta->shape();
  const int64_t features = shape[static_cast<size_t>(dim)];
  at::Generator fixed = at::detail::createCPUGenerator(7);
  const at::Tensor mix = at::randn({kFactors, features}, fixed);
  std::vector<int64_t> factors = shape;
  factors.erase(factors.begin() + dim);
  factors.push_back(kFactors);
  Batches batches;
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor mixed = at::matmul(at::randn(factors, generator), mix).movedim(-1, dim);
    batches.push_back({(mixed + 0.1 * at::randn(shape, generator) + 0.5).contiguous()});
  }
  return batches;
}

Batches smooth_batches(const Graph& graph, size_t count, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const std::vector<int64_t> shape = graph.user_inputs().front()->meta->shape();
  Batches batches;
  for (size_t i = 0; i < count; ++i)
    batches.push_back(
        {at::randn({shape[0], shape[1], 1, 1}, generator) + 0.3 * at::randn(shape, generator)});
  return batches;
}

BatchSource source_of(const Batches& batches) {
  return [&batches, i = size_t{0}]() mutable {
    return i == batches.size() ? std::nullopt : std::optional(batches[i++]);
  };
}

at::Tensor run_float(const ObservedGraph& observed, const std::vector<c10::IValue>& batch) {
  return float_interpreter(observed.graph).run(batch).at(0).toTensor();
}

double output_error(const Graph& want, const Graph& got, const Batches& batches) {
  Interpreter run_want(want);
  Interpreter run_got(got);
  double sum = 0;
  for (const std::vector<c10::IValue>& batch : batches)
    sum += (run_want.run(batch).at(0).toTensor() - run_got.run(batch).at(0).toTensor())
               .pow(2)
               .mean()
               .item<double>();
  return sum / static_cast<double>(batches.size());
}

Graph without_points(const ObservedGraph& observed) {
  Graph graph = std::move(*clone(observed.graph));
  for (Node* point : observer_nodes(graph)) {
    graph.replace_uses(point->output(), point->find_input("input"));
    graph.erase(*point);
  }
  return graph;
}

}  // namespace octet::test
