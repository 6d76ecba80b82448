#include "annotate/convert/convert.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert_steps.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/float_ops.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/check_limits.h"
#include "annotate/observed/scale_floor.h"
#include "annotate/observers/affine.h"
#include "annotate/observers/data_free.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/prepare/quantizer_calls.h"
#include "annotate/reference/representation.h"
#include "annotate/training/qat_conv_bn.h"
#include "core/base/error.h"
#include "core/passes/pass.h"
#include "core/passes/rewrites.h"
#include "core/passes/verify.h"

namespace octet {
namespace {

constexpr std::string_view kNamespace = "quantized_decomposed.";

// Replaces the observer nodes of a graph by quantize and dequantize ops.
class Converter {
 public:
  Converter(ObservedGraph& observed, Graph& graph, const ConvertOptions& options, Report& report)
      : observed_(observed), graph_(graph), options_(options), report_(report) {}

  void run() {
    for (Node* node : graph_.nodes())
      if (is_observer_node(node)) replace(*node);
  }

 private:
  void replace(Node& point) {
    Value* input = point.find_input("input");
    const Observer& observer = *observed_.observers.at(static_cast<size_t>(group_of(point)));
    Value* result = input;
    if (const AffineObserver* affine = find_affine_observer(observer)) {
      result = add_affine_pair(graph_, point, input, *affine);
      if (result == input)
        report_.note(
            fmt::format("convert: {} stays float: a scale for each element would change nothing",
                        subject_of_point(point)));
    } else if (observer.args().is_dynamic) {
      result = add_dynamic(point, input, observer);
    } else if (observer.args().dtype == DType::kFloat16) {
      result = add_float16(point, input);
    } else if (is_quantized_dtype(observer.args().dtype)) {
      const QParams qparams = qparams_of(point, observer);
      result = qparams.axis >= 0 ? add_per_channel(point, input, observer, qparams)
                                 : add_per_tensor(point, input, observer, qparams);
    }
    graph_.replace_uses(point.output(), result);
    graph_.erase(point);
  }

  static bool is_quantized_dtype(DType dtype) {
    switch (dtype) {
      case DType::kUInt8:
      case DType::kInt8:
      case DType::kUInt16:
      case DType::kInt16:
      case DType::kInt32:
      case DType::kFloat8E5M2:
      case DType::kFloat8E4M3FN: return true;
      default: return false;
    }
  }

  QParams qparams_of(const Node& point, const Observer& observer) {
    if (!observer.has_data()) {
      const std::string subject =
          fmt::format("%{} (observer group {})", observed_value(point)->name(), group_of(point));
      if (options_.compat == Compat::kNone)
        throw Error("convert", subject,
                    fmt::format("the {} observer saw no data, got 0 samples, want at least 1; "
                                "calibrate before converting{}",
                                observer.args().choice.name,
                                &graph_ == &observed_.graph
                                    ? ""
                                    : ", with data for which this branch or loop runs"));
      report_.note(fmt::format(
          "convert: {}: the observer saw no data; scale 1 and zero point 0 were used", subject));
      QParams result;
      result.scale = {1.0f};
      result.zero_point = {0};
      result.axis =
          is_per_channel(observer.args().qscheme) ? observer.args().ch_axis.value_or(0) : -1;
      return result;
    }
    return qparams_at(point, observer);
  }

  // Adds the keyword that restores the dtype of models that are not f32.
  static void add_out_dtype(std::vector<NamedArgument>& arguments, const Value* input) {
    if (input->meta && input->meta->dtype != DType::kFloat32)
      arguments.push_back({"out_dtype", input->meta->dtype, ArgumentKind::kKeyword});
  }

  Value* add_pair(Node& point, const std::string& kind, std::vector<NamedArgument> arguments,
                  Value* input, DType dtype) {
    Node* quantize = insert("quantize_" + kind, arguments, with_dtype(input->meta, dtype), point);
    arguments.front().value = quantize->output();
    add_out_dtype(arguments, input);
    std::optional<TensorMeta> meta = input->meta;
    if (meta) meta->requires_grad = false;
    return insert("dequantize_" + kind, std::move(arguments), std::move(meta), point)->output();
  }

  Value* add_per_tensor(Node& point, Value* input, const Observer& observer,
                        const QParams& qparams) {
    return add_pair(point, "per_tensor.default",
                    {{"input", input},
                     {"scale", static_cast<double>(qparams.scale.at(0))},
                     {"zero_point", qparams.zero_point.at(0)},
                     {"quant_min", observer.quant_min()},
                     {"quant_max", observer.quant_max()},
                     {"dtype", observer.args().dtype}},
                    input, observer.args().dtype);
  }

  Value* add_per_channel(Node& point, Value* input, const Observer& observer,
                         const QParams& qparams) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(qparams.scale.size())};
    Value* scales = add_numbered_constant(
        graph_, "_scale_", Tensor::from<float>(DType::kFloat32, shape, qparams.scale));
    Value* zero_points =
        add_numbered_constant(graph_, "_zero_point_", zero_point_tensor(qparams, shape));
    return add_pair(point, "per_channel.default",
                    {{"input", input},
                     {"scales", scales},
                     {"zero_points", zero_points},
                     {"axis", int64_t{qparams.axis}},
                     {"quant_min", observer.quant_min()},
                     {"quant_max", observer.quant_max()},
                     {"dtype", observer.args().dtype}},
                    input, observer.args().dtype);
  }

  static Tensor zero_point_tensor(const QParams& qparams, const std::vector<int64_t>& shape) {
    if (qparams.zero_point_dtype == DType::kFloat32)
      return Tensor::from<float>(DType::kFloat32, shape, qparams.float_zero_point);
    if (qparams.zero_point_dtype == DType::kInt64)
      return Tensor::from<int64_t>(DType::kInt64, shape, qparams.zero_point);
    const std::vector<int32_t> narrow(qparams.zero_point.begin(), qparams.zero_point.end());
    return Tensor::from<int32_t>(DType::kInt32, shape, narrow);
  }

  // torchao does not find the eps of a fake-quant.
  double dynamic_eps(const Observer& observer) const {
    const bool is_lost = options_.compat == Compat::kTorchao &&
                         dynamic_cast<const FakeQuantize*>(&observer) != nullptr;
    return is_lost ? kFloatEps : observer.args().choice.eps.value_or(kFloatEps);
  }

  Value* add_dynamic(Node& point, Value* input, const Observer& observer) {
    const DType dtype = observer.args().dtype;
    if (dtype != DType::kInt8 && dtype != DType::kUInt8)
      throw Error(
          "convert", "%" + observed_value(point)->name(),
          fmt::format("dynamic quantization to {}, want int8 or uint8; change the spec's dtype",
                      name_of(dtype)));
    const bool symmetric = is_symmetric(observer.args().qscheme);
    Node* choose = graph_.add_node(
        std::string(kNamespace) +
            (symmetric ? "choose_qparams_symmetric.tensor" : "choose_qparams.tensor"),
        {{"input", input},
         {"quant_min", observer.quant_min()},
         {"quant_max", observer.quant_max()},
         {"eps", dynamic_eps(observer)},
         {"dtype", dtype}},
        symmetric ? "choose_qparams_symmetric_tensor" : "choose_qparams_tensor", &point);
    Value* scale =
        graph_.add_result(*choose, graph_.fresh_name("getitem"), make_meta(DType::kFloat64, {1}));
    Value* zero_point =
        graph_.add_result(*choose, graph_.fresh_name("getitem"), make_meta(DType::kInt64, {1}));
    return add_pair(point, "per_tensor.tensor",
                    {{"input", input},
                     {"scale", scale},
                     {"zero_point", zero_point},
                     {"quant_min", observer.quant_min()},
                     {"quant_max", observer.quant_max()},
                     {"dtype", dtype}},
                    input, dtype);
  }

  Value* add_float16(Node& point, Value* input) {
    Node* half =
        insert("convert_element_type.no_fuse", {{"input", input}, {"dtype", DType::kFloat16}},
               with_dtype(input->meta, DType::kFloat16), point);
    return insert("convert_element_type.no_fuse",
                  {{"input", half->output()}, {"dtype", DType::kFloat32}},
                  with_dtype(input->meta, DType::kFloat32), point)
        ->output();
  }

  Node* insert(const std::string& op, std::vector<NamedArgument> arguments,
               std::optional<TensorMeta> meta, Node& before) {
    std::string name = op;
    std::replace(name.begin(), name.end(), '.', '_');
    return graph_.insert(std::string(kNamespace) + op, std::move(arguments), std::move(name),
                         std::move(meta), &before);
  }

  ObservedGraph& observed_;
  Graph& graph_;
  const ConvertOptions& options_;
  Report& report_;
};

// Converts one graph: the program or a body.
void convert_graph(ObservedGraph& observed, Graph& graph, const ConvertOptions& options,
                   Report& report) {
  run_passes(
      "convert", graph,
      {
          {"insert_qdq", [&] { Converter(observed, graph, options, report).run(); }},
          {"duplicate_dequantize",
           [&] { return duplicate_dequantize(graph, observed.annotations, options.compat); }},
          {"port_metadata", [&] { port_qdq_metadata(graph, observed.annotations); }},
          {"fold_mutable_buffers",
           [&] { return fold_quantize_into_mutable_buffers(graph, report); },
           options.fold_quantize_into_mutable_buffers},
          {"fold_quantize", [&] { return fold_quantized_constants(graph); }, options.fold_quantize},
          {"fold_float16", [&] { return fold_float16_constants(graph); },
           options.fold_quantize && options.compat == Compat::kNone},
      });
  verify(graph);
  report_float_ops(graph, observed.annotations, report);
  if (!options.reference_representation) return;
  run_passes("convert", graph,
             {
                 {"reference_representation",
                  [&] { return to_reference_representation(graph, options.compat, report); }},
             });
  verify(graph);
}

void convert_bodies(ObservedGraph& observed, const ConvertOptions& options, Report& report) {
  for (const Body& body : bodies_within(observed.graph))
    report_on_body(body, report,
                   [&](Report& own) { convert_graph(observed, *body.graph, options, own); });
}

// The observer nodes of the specs that the part's quantizer gave.
std::vector<Node*> inner_observers(const Island& island, const Annotations& annotations) {
  std::vector<Node*> points;
  const auto add = [&](Node* node, const SpecVariant* spec) {
    if (spec == nullptr || !is_observer_node(node)) return;
    const auto has = [](const auto& list, const auto& item) {
      return std::ranges::find(list, item) != list.end();
    };
    if (!has(island.border, observed_value(*node)) && !has(points, node)) points.push_back(node);
  };
  if (!island.has_quantizer) return points;
  for (const Node* node : island.nodes) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    for (const Value* input : node->inputs())
      add(input->producer(), annotation->find_input(through_observers(input)));
    for (const Value* output : node->outputs())
      for (Node* user : output->users()) add(user, annotation->find_output(output));
  }
  return points;
}

bool is_unused(const Node& node) {
  const std::vector<Value*> outputs = node.outputs();
  return std::ranges::all_of(outputs, [](const Value* output) { return output->is_unused(); });
}

// Erases those of the nodes that are still in the graph and whose results are unused.
void erase_unused(Graph& graph, const std::unordered_set<const Node*>& candidates) {
  const std::vector<Node*> nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (candidates.contains(*node) && is_unused(**node)) graph.erase(**node);
}

// Runs the hooks of opaque parts. A hook sees the observed form without observer nodes; they still
// read their values, so that qparams_of() finds them.
void convert_opaque_parts(ObservedGraph& observed) {
  for (Island& island : observed.islands) {
    if (!island.observed_to_quantized) continue;
    Graph& graph = island.nodes.front()->graph();
    std::unordered_set<const Node*> old;
    for (Node* point : inner_observers(island, observed.annotations)) {
      graph.replace_uses(point->output(), point->find_input("input"));
      old.insert(point);
    }
    for (const Node* node : island.nodes) {
      observed.annotations.erase(node);  // the hook may replace the node
      if (!is_unused(*node)) old.insert(node);
    }
    edit_by("convert", fmt::format("opaque part {}", island.name), "its observed_to_quantized()",
            graph, [&] {
              island.observed_to_quantized(observed, island);
              erase_unused(graph, old);
            });
  }
}

void check_options(const ConvertOptions& options) {
  if (options.fold_quantize_into_mutable_buffers && !options.fold_quantize)
    throw Error("convert", "options",
                "fold_quantize_into_mutable_buffers needs fold_quantize, got it off; turn it on");
}

}  // namespace

Graph convert_pt2e(ObservedGraph observed, const ConvertOptions& options, Report& report) {
  check_options(options);
  Graph& graph = observed.graph;
  const bool is_own = options.compat == Compat::kNone;
  run_passes(
      "convert", graph,
      {
          {"leave_unseen_bodies_float", [&] { return leave_unseen_bodies_float(observed, report); },
           is_own},
          {"convert_opaque_parts", [&] { convert_opaque_parts(observed); }},
          {"use_trained_qparams", [&] { use_trained_qparams(observed.observers); }, is_own},
          {"fold_conv_bn_qat", [&] { return fold_conv_bn_qat(graph, options.compat); }},
          {"leave_vanishing_operands_float",
           [&] { return leave_vanishing_operands_float(observed, report); }, is_own},
          {"fit_weights_to_biases", [&] { return fit_weights_to_biases(observed); }, is_own},
          {"report_scale_floors", [&] { report_scale_floors(observed, options.compat, report); }},
          {"check_scale_limits", [&] { check_scale_limits(observed); }},
          {"convert_bodies", [&] { convert_bodies(observed, options, report); }},
      });
  convert_graph(observed, graph, options, report);
  int moved = 0;
  run_passes("convert", graph,
             {
                 {"move_constants_out_of_bodies",
                  [&] { return moved = move_constants_out_of_bodies(graph); }},
             });
  if (moved > 0 && options.fold_quantize)
    run_passes("convert", graph,
               {
                   {"remove_dead", [&] { return remove_dead(graph, DeadInputs::kRemove); }},
               });
  verify(graph);
  return std::move(graph);
}

}  // namespace octet
