#include "tests/tools/conformance/quantizer_mutants.h"

#include <cmath>
#include <stdexcept>

#include "annotate/observers/observer.h"
#include "core/ops/weighted_ops.h"
#include "quantizers/registry.h"

namespace octet::test {
namespace {

using Change = std::function<void(Graph&, Annotations&)>;
using NodeChange = std::function<void(Node&, QuantizationAnnotation&)>;

class Mutated : public Quantizer {
 public:
  explicit Mutated(const QuantizerMutant& mutant)
      : mutant_(mutant), base_(make_quantizer(mutant.base)) {}

  std::string name() const override { return "mutant"; }
  void check_model(const Graph& model) const override { base_->check_model(model); }
  void transform_for_annotation(Graph& graph) override {
    base_->transform_for_annotation(graph);
    if (mutant_.transform) mutant_.transform(graph);
  }
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    base_->annotate(graph, annotations, report);
    if (mutant_.change) mutant_.change(graph, annotations);
  }
  void validate(const Graph& graph, const Annotations& annotations) override {
    base_->validate(graph, annotations);
  }
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override {
    base_->prepare_obs_or_fq_callback(graph, observers);
    if (mutant_.observers) mutant_.observers(observers);
  }

 private:
  const QuantizerMutant& mutant_;
  std::unique_ptr<Quantizer> base_;
};

// ---- which annotations change

Change each(NodeChange change) {
  return [=](Graph& graph, Annotations& annotations) {
    for (Node* node : graph.nodes())
      if (QuantizationAnnotation* annotation = annotations.find(node)) change(*node, *annotation);
  };
}

Change each(const char* op, NodeChange change) {
  return each([=](Node& node, QuantizationAnnotation& annotation) {
    if (node.is(op)) change(node, annotation);
  });
}

bool is_conv_or_linear(const Node& node) { return find_conv_or_linear(node) != nullptr; }

// A change of the observed spec of each activation, weight or result.
using SpecChange = std::function<void(QuantizationSpec&)>;

void change_spec(SpecVariant* spec, const SpecChange& change) {
  if (auto* own = spec == nullptr ? nullptr : std::get_if<QuantizationSpec>(spec)) change(*own);
}

Change each_operand(const char* name, SpecChange change) {
  return each([=](Node& node, QuantizationAnnotation& annotation) {
    const WeightedOp* op = find_weighted_op(node);
    if (op == nullptr) return;
    const Value* operand = node.find_input(std::string_view(name) == "weight" ? op->weight : op->x);
    for (auto& [value, spec] : annotation.input_qspec_map)
      if (value == operand) change_spec(&spec, change);
  });
}
Change each_weight(SpecChange change) { return each_operand("weight", std::move(change)); }
Change each_input(SpecChange change) { return each_operand("x", std::move(change)); }
Change each_result(SpecChange change) {
  return each([=](Node&, QuantizationAnnotation& annotation) {
    if (annotation.output_qspec) change_spec(&*annotation.output_qspec, change);
  });
}
Change each_spec(SpecChange change) {
  return each([=](Node&, QuantizationAnnotation& annotation) {
    for (auto& [value, spec] : annotation.input_qspec_map) change_spec(&spec, change);
    if (annotation.output_qspec) change_spec(&*annotation.output_qspec, change);
  });
}

SpecChange of_dtype(DType dtype) {
  return [=](QuantizationSpec& spec) {
    spec.dtype = dtype;
    spec.quant_min = spec.quant_max = std::nullopt;
  };
}
SpecChange in_range(std::optional<int64_t> low, std::optional<int64_t> high) {
  return [=](QuantizationSpec& spec) { spec.quant_min = low, spec.quant_max = high; };
}
SpecChange on_axis(int axis) {
  return [=](QuantizationSpec& spec) { spec.ch_axis = axis; };
}
SpecChange per_channel(int axis) {
  return [=](QuantizationSpec& spec) {
    spec.qscheme = QScheme::kPerChannelAffine;
    spec.ch_axis = axis;
    spec.observer_or_fake_quant_ctr = {.name = "per_channel_min_max"};
  };
}
SpecChange observed_by(ObserverChoice choice) {
  return [=](QuantizationSpec& spec) { spec.observer_or_fake_quant_ctr = choice; };
}

// ---- other specs

Change result_of(const char* op, std::function<SpecVariant(Node&)> spec) {
  return each(op, [=](Node& node, QuantizationAnnotation& annotation) {
    annotation.output_qspec = spec(node);
  });
}
Change result_of(const char* op, SpecVariant spec) {
  return result_of(op, [=](Node&) { return spec; });
}
FixedQParamsQuantizationSpec fixed(double scale, int64_t zero_point) {
  return {.dtype = DType::kInt8,
          .scale = scale,
          .zero_point = zero_point,
          .quant_min = -128,
          .quant_max = 127,
          .qscheme = QScheme::kPerTensorAffine};
}
const QuantizationSpec kPlain = {.dtype = DType::kInt8, .qscheme = QScheme::kPerTensorAffine};

// Annotates ops that the base leaves float.
Change annotates(const char* op, bool has_result = true) {
  return [=](Graph& graph, Annotations& annotations) {
    for (Node* node : graph.nodes_of(op)) {
      QuantizationAnnotation& annotation = annotations[node];
      for (Value* value : node->inputs())
        if (graph.find_constant(value) == nullptr) annotation.set_input(value, kPlain);
      if (has_result) annotation.output_qspec = kPlain;
    }
  };
}

// Gives the bias of each layer a derived spec.
Change bias(std::function<DerivedQuantizationSpec(Node&, const WeightedOp&)> make) {
  return each([=](Node& node, QuantizationAnnotation& annotation) {
    const WeightedOp* op = find_conv_or_linear(node);
    Value* value = op == nullptr ? nullptr : node.find_input(op->bias);
    if (value != nullptr) annotation.set_input(value, make(node, *op));
  });
}
DerivedQuantizationSpec derived(std::vector<EdgeOrNode> from, DeriveQParamsFn derive = {}) {
  return {.derived_from = std::move(from),
          .derive_name = derive ? "strange" : "product_of_scales",
          .derive_qparams_fn = derive ? derive : find_derive_fn("product_of_scales"),
          .dtype = DType::kInt32,
          .qscheme = QScheme::kPerChannelSymmetric,
          .ch_axis = 0};
}
Edge edge(Node& node, std::string_view name) { return {node.find_input(name), &node}; }
DerivedQuantizationSpec from_product(Node& node, const WeightedOp& op, DeriveQParamsFn derive) {
  return derived({edge(node, op.x), edge(node, op.weight)}, std::move(derive));
}
DeriveQParamsFn scales(float first, size_t count = 0) {
  return [=](const std::vector<std::shared_ptr<Observer>>& sources) {
    const size_t size = count == 0 ? sources[1]->calculate_qparams().scale.size() : count;
    return DerivedQParams{std::vector<float>(size, first), std::vector<int64_t>(size, 0)};
  };
}

// ---- choices that depend on what must not matter

void forget(Annotations& annotations, Node* node) {
  if (annotations.find(node) != nullptr) annotations.erase(node);
}
Change forgets(std::function<bool(Node&)> is_forgotten) {
  return [=](Graph& graph, Annotations& annotations) {
    for (Node* node : graph.nodes())
      if (is_forgotten(*node)) forget(annotations, node);
  };
}
Change forgets_output(const char* op) {
  return each(op, [](Node&, QuantizationAnnotation& annotation) {
    annotation.output_qspec = std::nullopt;
  });
}
Change forgets_input(const char* op, size_t index) {
  return each(op, [=](Node&, QuantizationAnnotation& annotation) {
    if (index < annotation.input_qspec_map.size())
      annotation.input_qspec_map.erase(annotation.input_qspec_map.begin() +
                                       static_cast<std::ptrdiff_t>(index));
  });
}

int& calls() {
  static int count = 0;
  return count;
}

const Change kNothing = [](Graph&, Annotations&) {};

std::vector<QuantizerMutant> make_all() {
  std::vector<QuantizerMutant> all;
  const auto xnnpack = [&](const char* name, Change change) {
    all.push_back({name, "xnnpack", "xnnpack", std::move(change)});
  };
  const auto x86 = [&](const char* name, Change change) {
    all.push_back({name, "x86", "onednn", std::move(change)});
  };
  // scales
  xnnpack("weights have their channels on axis 1", each_weight(on_axis(1)));
  x86("weights have their channels on axis 1", each_weight(on_axis(1)));
  xnnpack("ch_axis is beyond the shape", each_weight(on_axis(7)));
  xnnpack("ch_axis is negative", each_weight(on_axis(-1)));
  xnnpack("no ch_axis", each_weight([](QuantizationSpec& spec) { spec.ch_axis.reset(); }));
  xnnpack("inputs per channel", each_input(per_channel(1)));
  xnnpack("results per channel", each_result(per_channel(1)));
  x86("inputs per channel", each_input(per_channel(1)));
  x86("int32 inputs", each_input(of_dtype(DType::kInt32)));
  // dtypes and ranges
  x86("2-bit inputs", each_input(in_range(0, 3)));
  xnnpack("int16 inputs", each_input(of_dtype(DType::kInt16)));
  xnnpack("int16 results", each_result(of_dtype(DType::kInt16)));
  xnnpack("int32 inputs", each_input(of_dtype(DType::kInt32)));
  x86("int16 inputs", each_input(of_dtype(DType::kInt16)));
  x86("int16 weights", each_weight(of_dtype(DType::kInt16)));
  xnnpack("4-bit inputs", each_input(in_range(-2, 1)));
  xnnpack("weights of 2 bits", each_weight(in_range(-1, 1)));
  xnnpack("a symmetric range on one side", each_weight(in_range(-127, 0)));
  xnnpack("an empty range", each_result(in_range(5, 4)));
  xnnpack("half of a range", each_result(in_range(-128, std::nullopt)));
  xnnpack("a range beyond int8", each_result(in_range(-128, 255)));
  x86("a range beyond int8", each_input(in_range(0, 511)));
  // observers
  xnnpack("an unknown observer", each_input(observed_by({.name = "midmax"})));
  xnnpack("eps is 0", each_input(observed_by({.name = "min_max", .eps = 0.0})));
  xnnpack("an observer that clips most",
          each_result(observed_by({.name = "percentile", .percentile = 10})));
  xnnpack("an observer that ignores new data",
          each_result(observed_by({.name = "moving_average_min_max", .averaging_constant = 0})));
  xnnpack("a per-channel observer for inputs",
          each_input(observed_by({.name = "per_channel_min_max"})));
  xnnpack("no observer of inputs", each_input(observed_by({.name = "placeholder"})));
  xnnpack("scales at run time in a static op",
          each_spec([](QuantizationSpec& spec) { spec.is_dynamic = true; }));
  // edges
  xnnpack("a spec for what the node does not read",
          each([](Node& node, QuantizationAnnotation& annotation) {
            annotation.set_input(node.outputs()[0], kPlain);
          }));
  xnnpack("a spec for no tensor", each([](Node&, QuantizationAnnotation& annotation) {
            annotation.set_input(nullptr, kPlain);
          }));
  xnnpack("two specs for an input", each([](Node&, QuantizationAnnotation& annotation) {
            if (!annotation.input_qspec_map.empty())
              annotation.input_qspec_map.push_back(annotation.input_qspec_map[0]);
          }));
  xnnpack("an output spec for an input", each([](Node& node, QuantizationAnnotation& annotation) {
            annotation.set_output(node.inputs()[0], kPlain);
          }));
  xnnpack("integers get a spec", annotates("aten.argmax"));
  xnnpack("indices get a spec", annotates("aten.embedding", false));
  x86("indices get a spec", annotates("aten.embedding", false));
  xnnpack("a node of another graph", [](Graph& graph, Annotations& annotations) {
    static const std::unique_ptr<Graph> other = clone(graph);
    annotations[other->nodes()[0]].output_qspec = kPlain;
  });
  // sharing
  xnnpack("shares with a tensor without a spec", result_of("aten.conv2d", [](Node& node) {
            return SharedQuantizationSpec{edge(node, "bias")};
          }));
  xnnpack("shares with itself", result_of("aten.linear", [](Node& node) {
            return SharedQuantizationSpec{node.output()};
          }));
  xnnpack("shares with an edge that does not exist", result_of("aten.conv2d", [](Node& node) {
            return SharedQuantizationSpec{Edge{node.output(), &node}};
          }));
  xnnpack("shares with the weight", result_of("aten.conv2d", [](Node& node) {
            return SharedQuantizationSpec{edge(node, "weight")};
          }));
  xnnpack("two tensors share with each other",
          each("aten.add", [](Node& node, QuantizationAnnotation& annotation) {
            if (node.inputs().size() != 2) return;
            const Edge a{node.inputs()[0], &node}, b{node.inputs()[1], &node};
            annotation.set_input(a.value, SharedQuantizationSpec{b});
            annotation.set_input(b.value, SharedQuantizationSpec{a});
          }));
  xnnpack("shares with a tensor of another graph", result_of("aten.linear", [](Node& node) {
            static const std::unique_ptr<Graph> other = clone(node.graph());
            return SharedQuantizationSpec{other->nodes()[0]->outputs()[0]};
          }));
  // patterns
  xnnpack("forgets the result of a convolution", forgets_output("aten.conv2d"));
  xnnpack("forgets the result of an addition", forgets_output("aten.add"));
  xnnpack("forgets the result of a relu", forgets_output("aten.relu"));
  xnnpack("forgets the input of a convolution", forgets_input("aten.conv2d", 0));
  xnnpack("forgets the weight of a linear", forgets_input("aten.linear", 1));
  xnnpack("forgets an operand of an addition", forgets_input("aten.add", 1));
  x86("forgets the weight of a convolution", forgets_input("aten.conv2d", 1));
  x86("forgets an operand of a product", forgets_input("aten.mul", 1));
  xnnpack("annotates half of a pattern", forgets([](Node& node) { return node.is("aten.relu"); }));
  xnnpack("annotates the other half", forgets([](Node& node) { return is_conv_or_linear(node); }));
  xnnpack("annotates ops without kernels", annotates("aten.div"));
  x86("integers get a spec", annotates("aten.argmax"));
  xnnpack("annotates inputs alone", annotates("aten.tanh", false));
  // fixed and derived scales
  xnnpack("a fixed scale that is too small", result_of("aten.conv2d", fixed(1e-4, 0)));
  xnnpack("a fixed scale that is too large", result_of("aten.linear", fixed(4, 0)));
  xnnpack("a fixed scale of 0", result_of("aten.linear", fixed(0, 0)));
  xnnpack("a fixed scale that is not a number", result_of("aten.linear", fixed(NAN, 0)));
  xnnpack("a fixed zero point out of range", result_of("aten.linear", fixed(0.1, 300)));
  xnnpack("a fixed zero point at the end", result_of("aten.linear", fixed(0.05, 127)));
  xnnpack("a bias with the scale of the weight", bias([](Node& node, const WeightedOp& op) {
            return derived({edge(node, op.weight), edge(node, op.weight)});
          }));
  xnnpack("a bias from one source",
          bias([](Node& node, const WeightedOp& op) { return derived({edge(node, op.weight)}); }));
  xnnpack("a bias from itself", bias([](Node& node, const WeightedOp& op) {
            return derived({edge(node, op.x), edge(node, op.bias)});
          }));
  xnnpack("a bias scale that is infinite", bias([](Node& node, const WeightedOp& op) {
            return from_product(node, op, scales(INFINITY));
          }));
  xnnpack("a bias scale of 0",
          bias([](Node& node, const WeightedOp& op) { return from_product(node, op, scales(0)); }));
  xnnpack("a bias scale that is too large", bias([](Node& node, const WeightedOp& op) {
            return from_product(node, op, scales(100));
          }));
  xnnpack("too many bias scales", bias([](Node& node, const WeightedOp& op) {
            return from_product(node, op, scales(0.01F, 99));
          }));
  // what must not matter
  xnnpack("depends on names of nodes",
          forgets([](Node& node) { return node.name().find('3') != std::string::npos; }));
  xnnpack("depends on names of inputs", forgets([](Node& node) {
            return !node.inputs().empty() && node.inputs()[0]->name() == "x_1";
          }));
  x86("depends on names of nodes",
      forgets([](Node& node) { return node.name().starts_with("linear"); }));
  xnnpack("depends on the order", [](Graph& graph, Annotations& annotations) {
    for (size_t i = 1; i < graph.node_count(); i += 2) forget(annotations, graph.nodes()[i]);
  });
  xnnpack("leaves the first convolution float", [](Graph& graph, Annotations& annotations) {
    if (const std::vector<Node*> all = graph.nodes_of("aten.conv2d"); !all.empty())
      forget(annotations, all.front());
  });
  x86("leaves the last op float", [](Graph& graph, Annotations& annotations) {
    if (graph.node_count() > 1) forget(annotations, graph.nodes().back());
  });
  xnnpack("depends on the order of users", [](Graph& graph, Annotations& annotations) {
    for (Value* input : graph.user_inputs())
      if (input->users().size() > 1) forget(annotations, input->users()[0]);
  });
  xnnpack("changes from call to call", [](Graph& graph, Annotations& annotations) {
    if (++calls() % 2 == 0)
      for (Node* node : graph.nodes()) forget(annotations, node);
  });
  // edits
  xnnpack("renames nodes", [](Graph& graph, Annotations&) {
    graph.rename(*graph.nodes()[0], graph.fresh_name("mine"));
  });
  xnnpack("adds nodes", [](Graph& graph, Annotations&) {
    if (!graph.user_inputs().empty())
      graph.insert("aten.clone.default", {{"self", graph.user_inputs()[0]}},
                   graph.fresh_name("mine"), graph.user_inputs()[0]->meta, nullptr);
  });
  xnnpack("changes arguments", each("aten.conv2d", [](Node& node, QuantizationAnnotation&) {
            node.set_argument("groups", int64_t{1} + node.int_or("groups", 1));
          }));
  all.push_back(
      {"its transform adds nodes each time", "xnnpack", "xnnpack", kNothing, [](Graph& graph) {
         for (Value* input : graph.user_inputs()) {
           const std::vector<Node*> users = input->users();
           if (users.empty() || input->meta->dtype != DType::kFloat32) continue;
           Node* copy = graph.insert("aten.clone.default", {{"self", input}},
                                     graph.fresh_name("copy"), input->meta, graph.nodes()[0]);
           for (Node* user : users) user->replace_input(input, copy->output());
         }
       }});
  all.push_back(
      {"its transform drops activations", "xnnpack", "xnnpack", kNothing, [](Graph& graph) {
         for (Node* node : graph.nodes_of("aten.relu")) {
           graph.replace_uses(node->output(), node->inputs()[0]);
           graph.erase(*node);
         }
       }});
  all.push_back({"it removes observers of results",
                 "xnnpack",
                 "xnnpack",
                 kNothing,
                 {},
                 [](ObserverMap& observers) {
                   for (auto& [place, observer] : observers)
                     if (std::holds_alternative<Value*>(place)) observer.reset();
                 }});
  all.push_back(
      {"it swaps observers", "xnnpack", "xnnpack", kNothing, {}, [](ObserverMap& observers) {
         for (size_t i = 1; i < observers.size(); i += 2)
           std::swap(observers[i - 1].second, observers[i].second);
       }});
  // exceptions
  xnnpack("throws", [](Graph&, Annotations&) { throw std::runtime_error("no"); });
  xnnpack("throws a number", [](Graph&, Annotations&) { throw 7; });
  return all;
}

}  // namespace

std::span<const QuantizerMutant> quantizer_mutants() {
  static const std::vector<QuantizerMutant> all = make_all();
  return all;
}

std::unique_ptr<Quantizer> make_mutant(const QuantizerMutant& mutant) {
  return std::make_unique<Mutated>(mutant);
}

}  // namespace octet::test
