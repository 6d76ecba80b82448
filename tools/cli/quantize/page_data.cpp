// Collects the data of the report page: the nodes of the float program, and for each tensor what
// the observer saw, the quantized range and the share that is clipped.
#include "tools/cli/quantize/report_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/histogram.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "tools/cli/common/graph_nodes.h"
#include "tools/cli/quantize/products.h"

namespace octet {
namespace {

using SeenJson = nlohmann::ordered_json;

const Observer& without_fake_quant(const Observer& observer) {
  const FakeQuantize* fake = dynamic_cast<const FakeQuantize*>(&observer);
  return fake != nullptr ? fake->observer() : observer;
}

// A histogram in torch's form: the last bin includes its upper end.
SeenJson histogram_json(const HistogramObserver& observer) {
  return {{"min", observer.min()},
          {"max", observer.max()},
          {"counts", std::vector<double>(observer.counts().begin(), observer.counts().end())}};
}

SeenJson activation_json(const Observer& outer) {
  const Observer& observer = without_fake_quant(outer);
  SeenJson seen = {{"observer", outer.args().choice.name}};
  if (!observer.has_data() || observer.args().is_dynamic) return seen;
  if (const HistogramObserver* histogram = dynamic_cast<const HistogramObserver*>(&observer)) {
    seen["observed"] = {histogram->min(), histogram->max()};
    if (histogram->max() > histogram->min()) seen["histogram"] = histogram_json(*histogram);
    return seen;
  }
  const ObserverState state = observer.state();
  if (state.min.size() == 1 && state.max.size() == 1)
    seen["observed"] = {state.min.front(), state.max.front()};
  return seen;
}

using WeightJson = nlohmann::ordered_json;

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().reshape({-1});
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// Reshapes to [channels, elements of a channel].
at::Tensor by_channel(const at::Tensor& tensor, int64_t axis) {
  return tensor.to(at::kFloat).movedim(axis, 0).reshape({tensor.size(axis), -1});
}

WeightJson ratios_of(const at::Tensor& original, const at::Tensor& now) {
  const std::vector<double> signal = numbers_of(original.to(at::kDouble).square().sum(1)),
                            noise = numbers_of((original - now).to(at::kDouble).square().sum(1));
  WeightJson ratios = WeightJson::array();
  for (size_t i = 0; i < signal.size(); ++i)
    if (noise[i] == 0)
      ratios.push_back("inf");
    else if (signal[i] == 0)
      ratios.push_back("-inf");
    else
      ratios.push_back(10 * std::log10(signal[i] / noise[i]));
  return ratios;
}

using NodeJson = nlohmann::ordered_json;

std::string spec_text(const NodeJson& tensor) {
  std::string text = tensor.at("spec").at("text").get<std::string>();
  if (tensor.at("spec").value("is_dynamic", false)) text += "; computed at run time";
  return tensor.at("group").is_null()
             ? text + "; not quantized"
             : fmt::format("{}; group {}", text, tensor.at("group").get<size_t>());
}

class PageNodes {
 public:
  PageNodes(const Graph& graph, const SeenTensors& seen, const NodeJson& report)
      : graph_(graph), seen_(seen) {
    for (const NodeJson& op : report.at("quantized_ops")) quantized_[op.at("node")] = &op;
    for (const NodeJson& op : report.at("float_ops")) floats_.try_emplace(op.at("node"), &op);
    for (const Product& product : find_products(graph)) macs_[product.name] = product.macs;
  }

  NodeJson run() {
    NodeJson nodes = graph_nodes(graph_);
    std::set<std::string> shown;
    for (NodeJson& json : nodes) {
      const std::string name = json.at("name").get<std::string>();
      shown.insert(name);
      if (json.at("status") == "input")
        put_output(*graph_.find_value(name), json);
      else if (json.at("status") != "output")
        put_op(*graph_.find_node(name), json);
    }
    add_others(shown, nodes);
    return nodes;
  }

 private:
  void put_op(const Node& node, NodeJson& json) const {
    const std::vector<Value*> outputs = node.outputs();
    if (!outputs.empty()) put_output(*outputs.front(), json);
    put_status(node.name(), json);
    if (const auto macs = macs_.find(node.name()); macs != macs_.end())
      json["macs"] = static_cast<int64_t>(macs->second);
    put_weight(node, json);
  }

  // Adds ops in bodies of control flow, which the report lists and this graph lacks, before the
  // program's output.
  void add_others(const std::set<std::string>& shown, NodeJson& nodes) const {
    for (const auto& [name, op] : floats_) {
      if (shown.contains(name)) continue;
      NodeJson json = {{"name", name},
                       {"target", op->at("target")},
                       {"module", op->at("module")},
                       {"inputs", NodeJson::array()}};
      put_status(name, json);
      nodes.insert(nodes.end() - 1, std::move(json));
    }
  }

  void put_status(const std::string& name, NodeJson& json) const {
    const auto op = quantized_.find(name);
    if (op == quantized_.end()) {
      const auto kept = floats_.find(name);
      json["status"] = kept == floats_.end() ? "other" : "float";
      if (kept != floats_.end()) json["reason"] = kept->second->at("reason");
      return;
    }
    json["status"] = "quantized";
    json["rule"] = op->second->at("rule");
    json["tensors"] = NodeJson::array();
    for (const NodeJson& input : op->second->at("inputs"))
      json["tensors"].push_back({input.at("tensor"), spec_text(input)});
    if (const NodeJson& output = op->second->at("output"); !output.is_null())
      json["tensors"].push_back({output.at("tensor"), spec_text(output)});
  }

  // Adds how a result is quantized.
  void put_output(const Value& value, NodeJson& json) const {
    NodeJson output;
    for (const Node* user : value.users()) {
      const std::optional<Quantization> quantization = find_quantization(user);
      if (!quantization || !is_quantize(user) || quantization->is_per_channel) continue;
      output["dtype"] = short_name_of(quantization->dtype);
      if (quantization->has_numbers()) put_range(*quantization, output);
      break;
    }
    const auto seen = seen_.activations.find(value.name());
    if (output.is_null()) return;
    if (seen != seen_.activations.end()) {
      output.update(seen->second);
      put_clipped(output);
    }
    json["output"] = std::move(output);
  }

  static void put_range(const Quantization& quantization, NodeJson& output) {
    const double scale = quantization.scale_number();
    const int64_t zero_point = *quantization.zero_point.find<int64_t>();
    output["scale"] = scale;
    output["zero_point"] = zero_point;
    output["range"] = {scale * static_cast<double>(quantization.quant_min - zero_point),
                       scale * static_cast<double>(quantization.quant_max - zero_point)};
  }

  // Adds the share of the histogram outside the range, assuming that values are spread evenly
  // within a bin. Values up to half a step beyond the range still round into it.
  static void put_clipped(NodeJson& output) {
    if (!output.contains("histogram") || !output.contains("range")) return;
    const NodeJson& histogram = output.at("histogram");
    const double half_step = output.at("scale").get<double>() / 2;
    const double low = output.at("range")[0].get<double>() - half_step,
                 high = output.at("range")[1].get<double>() + half_step;
    const double min = histogram.at("min"), max = histogram.at("max");
    const NodeJson& counts = histogram.at("counts");
    const double width = (max - min) / static_cast<double>(counts.size());
    double all = 0, outside = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const double begin = min + static_cast<double>(i) * width, end = begin + width;
      const double inside =
          std::clamp((std::min(end, high) - std::max(begin, low)) / width, 0., 1.);
      all += counts[i].get<double>();
      outside += counts[i].get<double>() * (1 - inside);
    }
    output["clipped_share"] = all == 0 ? 0 : outside / all;
  }

  void put_weight(const Node& node, NodeJson& json) const {
    const auto seen = seen_.weights.find(node.name());
    for (const Value* input : node.inputs()) {
      if (!is_dequantized(input)) continue;
      const NodeJson weight = weight_json(
          graph_, *input->producer(), seen == seen_.weights.end() ? "" : seen->second.name,
          seen == seen_.weights.end() ? Tensor() : seen->second.tensor);
      if (weight.is_null()) continue;
      json["weight"] = weight;
      return;
    }
  }

  const Graph& graph_;
  const SeenTensors& seen_;
  std::map<std::string, const NodeJson*> quantized_, floats_;  // entries of the report, by node
  std::map<std::string, double> macs_;
};

}  // namespace

SeenTensors see_tensors(const ObservedGraph& observed) {
  SeenTensors seen;
  const Graph& graph = observed.graph;
  for (const Node* point : observer_nodes(graph)) {
    if (&point->graph() != &graph) continue;
    const Value* value = observed_value(*point);
    if (graph.find_constant(value) == nullptr)
      seen.activations.try_emplace(
          value->name(),
          activation_json(*observed.observers.at(static_cast<size_t>(group_of(*point)))));
  }
  for (const Node* node : graph.nodes()) {
    if (is_observer_node(node)) continue;
    for (const Value* input : node->inputs()) {
      const Value* value = through_observers(input);
      const Tensor* tensor = graph.find_constant(value);
      if (value == input || tensor == nullptr || tensor->shape().size() < 2) continue;
      seen.weights.try_emplace(node->name(),
                               SeenTensors::Weight{graph.find_input(value)->fqn, *tensor});
      break;
    }
  }
  return seen;
}

Tensor dequantized_constant(const Graph& graph, const Node& dequantize) {
  Graph part;
  std::map<Value*, Value*> copies;
  for (Value* input : dequantize.inputs()) {
    const Tensor* constant = graph.find_constant(input);
    if (constant == nullptr) return {};
    copies[input] = part.add_constant(input->name(), *constant, InputKind::kTensorConstant);
  }
  if (copies.empty()) return {};
  std::vector<NamedArgument> arguments = dequantize.arguments();
  for (NamedArgument& argument : arguments)
    rewrite_values(argument.value, [&](Value* value) { return copies.at(value); });
  Node* twin = part.add_node(dequantize.target(), std::move(arguments), dequantize.name());
  Value* result = part.add_result(*twin, dequantize.name(), dequantize.output()->meta);
  part.add_output({result, OutputKind::kUserOutput, ""});
  return from_aten(Interpreter(part).run({}).at(0).toTensor());
}

WeightJson weight_json(const Graph& graph, const Node& dequantize, const std::string& name,
                       const Tensor& original) {
  const Tensor tensor = dequantized_constant(graph, dequantize);
  if (!tensor.defined() || tensor.shape().size() < 2 || tensor.numel() == 0) return nullptr;
  const std::optional<Quantization> quantization = find_quantization(&dequantize);
  const int64_t axis = quantization && quantization->is_per_channel && quantization->axis >= 0
                           ? quantization->axis
                           : 0;
  const Tensor* stored = graph.find_constant(dequantize.inputs().front());
  WeightJson weight = {{"name", name},
                       {"dtype", short_name_of(stored->dtype())},
                       {"shape", tensor.shape()},
                       {"axis", axis}};
  const at::Tensor now = by_channel(to_aten(tensor), axis);
  const bool has_original = original.defined() && original.shape() == tensor.shape();
  const at::Tensor shown = has_original ? by_channel(to_aten(original), axis) : now;
  weight["min"] = numbers_of(shown.amin(1));
  weight["max"] = numbers_of(shown.amax(1));
  if (quantization && quantization->scale.find<double>() != nullptr)
    weight["scale"] = {quantization->scale_number()};
  else if (quantization)
    if (const Tensor* scales = graph.find_constant(quantization->scale.value_or_null()))
      weight["scale"] = numbers_of(to_aten(*scales));
  if (has_original) weight["sqnr_db"] = ratios_of(shown, now);
  return weight;
}

NodeJson page_nodes(const Graph& quantized, const SeenTensors& seen, const NodeJson& report) {
  return PageNodes(quantized, seen, report).run();
}

NodeJson page_data(const std::string& kind, const std::string& subtitle,
                   const std::vector<std::pair<std::string, std::string>>& rows,
                   const NodeJson& report, NodeJson nodes) {
  NodeJson summary = NodeJson::array();
  for (const auto& [name, text] : rows) summary.push_back({name, text});
  const NodeJson& counts = report.at("summary");
  summary.push_back(
      {"ops",
       fmt::format("{} quantized, {} float; {} groups of tensors with one scale",
                   counts.at("quantized_ops").get<size_t>(), counts.at("float_ops").get<size_t>(),
                   counts.at("groups").get<size_t>())});
  NodeJson notes = report.at("notes");
  for (const NodeJson& detail : report.at("details")) notes.push_back(detail);
  const NodeJson& quality = report.at("quality");
  NodeJson decibels;
  if (quality.is_object() && !quality.at("batches").is_null()) {
    decibels = quality.at("median_sqnr_db");
    if (decibels.is_null()) decibels = "inf";
  }
  return {
      {"kind", kind},
      {"title", std::filesystem::path(report.at("model").get<std::string>()).filename().string()},
      {"subtitle", subtitle},
      {"summary", summary},
      {"notes", notes},
      {"output_sqnr_db", decibels},
      {"nodes", std::move(nodes)}};
}

}  // namespace octet
