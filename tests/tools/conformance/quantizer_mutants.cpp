#include "tests/tools/conformance/quantizer_mutants.h"

#include <cmath>
#include <stdexcept>

#include "annotate/annotation/observer_choices.h"
#include "quantizers/registry.h"
#include "tests/tools/conformance/annotation_changes.h"

namespace octet::test {
namespace {

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

int& calls() {
  static int count = 0;
  return count;
}

const Change kNothing = [](Graph&, Annotations&) {};

// ---- the table

struct Table {
  std::vector<QuantizerMutant> rows = {};
  void xnnpack(const char* name, Change change) {
    rows.push_back({name, "xnnpack", "xnnpack", std::move(change)});
  }
  void x86(const char* name, Change change) {
    rows.push_back({name, "x86", "onednn", std::move(change)});
  }
};

void add_wrong_specs(Table& t) {
  t.xnnpack("weights have their channels on axis 1", each_weight(on_axis(1)));
  t.x86("weights have their channels on axis 1", each_weight(on_axis(1)));
  t.xnnpack("ch_axis is beyond the shape", each_weight(on_axis(7)));
  t.xnnpack("ch_axis is negative", each_weight(on_axis(-1)));
  t.xnnpack("no ch_axis", each_weight([](QuantizationSpec& spec) { spec.ch_axis.reset(); }));
  t.xnnpack("inputs per channel", each_input(per_channel(1)));
  t.xnnpack("results per channel", each_result(per_channel(1)));
  t.x86("inputs per channel", each_input(per_channel(1)));
  t.x86("int32 inputs", each_input(of_dtype(DType::kInt32)));
  t.x86("2-bit inputs", each_input(in_range(0, 3)));
  t.xnnpack("int16 inputs", each_input(of_dtype(DType::kInt16)));
  t.xnnpack("int16 results", each_result(of_dtype(DType::kInt16)));
  t.xnnpack("int32 inputs", each_input(of_dtype(DType::kInt32)));
  t.x86("int16 inputs", each_input(of_dtype(DType::kInt16)));
  t.x86("int16 weights", each_weight(of_dtype(DType::kInt16)));
  t.xnnpack("4-bit inputs", each_input(in_range(-2, 1)));
  t.xnnpack("weights of 2 bits", each_weight(in_range(-1, 1)));
  t.xnnpack("a symmetric range on one side", each_weight(in_range(-127, 0)));
  t.xnnpack("an empty range", each_result(in_range(5, 4)));
  t.xnnpack("half of a range", each_result(in_range(-128, std::nullopt)));
  t.xnnpack("a range beyond int8", each_result(in_range(-128, 255)));
  t.x86("a range beyond int8", each_input(in_range(0, 511)));
}

void add_wrong_observers(Table& t) {
  t.xnnpack("an unknown observer", each_input(observed_by(observer("midmax"))));
  t.xnnpack("eps is 0", each_input(observed_by(min_max(0.0))));
  t.xnnpack("an observer that clips most", each_result(observed_by(percentile(10))));
  t.xnnpack("an observer that ignores new data", each_result(observed_by(moving_average(0))));
  t.xnnpack("a per-channel observer for inputs", each_input(observed_by(per_channel_min_max())));
  t.xnnpack("no observer of inputs", each_input(observed_by(placeholder())));
  t.xnnpack("scales at run time in a static op",
            each_spec([](QuantizationSpec& spec) { spec.is_dynamic = true; }));
}

void add_wrong_edges(Table& t) {
  t.xnnpack("a spec for what the node does not read",
            each([](Node& node, QuantizationAnnotation& annotation) {
              annotation.set_input(node.outputs()[0], kPlain);
            }));
  t.xnnpack("a spec for no tensor", each([](Node&, QuantizationAnnotation& annotation) {
              annotation.set_input(nullptr, kPlain);
            }));
  t.xnnpack("two specs for an input", each([](Node&, QuantizationAnnotation& annotation) {
              if (!annotation.input_qspec_map.empty())
                annotation.input_qspec_map.push_back(annotation.input_qspec_map[0]);
            }));
  t.xnnpack("an output spec for an input", each([](Node& node, QuantizationAnnotation& annotation) {
              annotation.set_output(node.inputs()[0], kPlain);
            }));
  t.xnnpack("integers get a spec", annotates("aten.argmax"));
  t.xnnpack("indices get a spec", annotates("aten.embedding", false));
  t.x86("indices get a spec", annotates("aten.embedding", false));
  t.xnnpack("a node of another graph", [](Graph& graph, Annotations& annotations) {
    static const std::unique_ptr<Graph> other = clone(graph);
    annotations[other->nodes()[0]].output_qspec = kPlain;
  });
}

void add_wrong_sharing(Table& t) {
  t.xnnpack("shares with a tensor without a spec", result_of("aten.conv2d", [](Node& node) {
              return SharedQuantizationSpec{edge(node, "bias")};
            }));
  t.xnnpack("shares with itself", result_of("aten.linear", [](Node& node) {
              return SharedQuantizationSpec{node.output()};
            }));
  t.xnnpack("shares with an edge that does not exist", result_of("aten.conv2d", [](Node& node) {
              return SharedQuantizationSpec{Edge{node.output(), &node}};
            }));
  t.xnnpack("shares with the weight", result_of("aten.conv2d", [](Node& node) {
              return SharedQuantizationSpec{edge(node, "weight")};
            }));
  t.xnnpack("two tensors share with each other",
            each("aten.add", [](Node& node, QuantizationAnnotation& annotation) {
              if (node.inputs().size() != 2) return;
              const Edge a{node.inputs()[0], &node}, b{node.inputs()[1], &node};
              annotation.set_input(a.value, SharedQuantizationSpec{b});
              annotation.set_input(b.value, SharedQuantizationSpec{a});
            }));
  t.xnnpack("shares with a tensor of another graph", result_of("aten.linear", [](Node& node) {
              static const std::unique_ptr<Graph> other = clone(node.graph());
              return SharedQuantizationSpec{other->nodes()[0]->outputs()[0]};
            }));
}

void add_wrong_patterns(Table& t) {
  t.xnnpack("forgets the result of a convolution", forgets_output("aten.conv2d"));
  t.xnnpack("forgets the result of an addition", forgets_output("aten.add"));
  t.xnnpack("forgets the result of a relu", forgets_output("aten.relu"));
  t.xnnpack("forgets the input of a convolution", forgets_input("aten.conv2d", 0));
  t.xnnpack("forgets the weight of a linear", forgets_input("aten.linear", 1));
  t.xnnpack("forgets an operand of an addition", forgets_input("aten.add", 1));
  t.x86("forgets the weight of a convolution", forgets_input("aten.conv2d", 1));
  t.x86("forgets an operand of a product", forgets_input("aten.mul", 1));
  t.xnnpack("annotates half of a pattern",
            forgets([](Node& node) { return node.is("aten.relu"); }));
  t.xnnpack("annotates the other half",
            forgets([](Node& node) { return is_conv_or_linear(node); }));
  t.xnnpack("annotates ops without kernels", annotates("aten.div"));
  t.x86("integers get a spec", annotates("aten.argmax"));
  t.xnnpack("annotates inputs alone", annotates("aten.tanh", false));
}

void add_wrong_scales(Table& t) {
  t.xnnpack("a fixed scale that is too small", result_of("aten.conv2d", fixed(1e-4, 0)));
  t.xnnpack("a fixed scale that is too large", result_of("aten.linear", fixed(4, 0)));
  t.xnnpack("a fixed scale of 0", result_of("aten.linear", fixed(0, 0)));
  t.xnnpack("a fixed scale that is not a number", result_of("aten.linear", fixed(NAN, 0)));
  t.xnnpack("a fixed zero point out of range", result_of("aten.linear", fixed(0.1, 300)));
  t.xnnpack("a fixed zero point at the end", result_of("aten.linear", fixed(0.05, 127)));
  t.xnnpack("a bias with the scale of the weight", bias([](Node& node, const WeightedOp& op) {
              return derived({edge(node, op.weight), edge(node, op.weight)});
            }));
  t.xnnpack("a bias from one source", bias([](Node& node, const WeightedOp& op) {
              return derived({edge(node, op.weight)});
            }));
  t.xnnpack("a bias from itself", bias([](Node& node, const WeightedOp& op) {
              return derived({edge(node, op.x), edge(node, op.bias)});
            }));
  t.xnnpack("a bias scale that is infinite", bias([](Node& node, const WeightedOp& op) {
              return from_product(node, op, scales(INFINITY));
            }));
  t.xnnpack("a bias scale of 0", bias([](Node& node, const WeightedOp& op) {
              return from_product(node, op, scales(0));
            }));
  t.xnnpack("a bias scale that is too large", bias([](Node& node, const WeightedOp& op) {
              return from_product(node, op, scales(100));
            }));
  t.xnnpack("too many bias scales", bias([](Node& node, const WeightedOp& op) {
              return from_product(node, op, scales(0.01F, 99));
            }));
}

void add_unstable(Table& t) {
  t.xnnpack("depends on names of nodes",
            forgets([](Node& node) { return node.name().find('3') != std::string::npos; }));
  t.xnnpack("depends on names of inputs", forgets([](Node& node) {
              return !node.inputs().empty() && node.inputs()[0]->name() == "x_1";
            }));
  t.x86("depends on names of nodes",
        forgets([](Node& node) { return node.name().starts_with("linear"); }));
  t.xnnpack("depends on the order", [](Graph& graph, Annotations& annotations) {
    for (size_t i = 1; i < graph.node_count(); i += 2) forget(annotations, graph.nodes()[i]);
  });
  t.xnnpack("leaves the first convolution float", [](Graph& graph, Annotations& annotations) {
    if (const std::vector<Node*> all = graph.nodes_of("aten.conv2d"); !all.empty())
      forget(annotations, all.front());
  });
  t.x86("leaves the last op float", [](Graph& graph, Annotations& annotations) {
    if (graph.node_count() > 1) forget(annotations, graph.nodes().back());
  });
  t.xnnpack("depends on the order of users", [](Graph& graph, Annotations& annotations) {
    for (Value* input : graph.user_inputs())
      if (input->users().size() > 1) forget(annotations, input->users()[0]);
  });
  t.xnnpack("changes from call to call", [](Graph& graph, Annotations& annotations) {
    if (++calls() % 2 == 0)
      for (Node* node : graph.nodes()) forget(annotations, node);
  });
}

void add_edits(Table& t) {
  t.xnnpack("renames nodes", [](Graph& graph, Annotations&) {
    graph.rename(*graph.nodes()[0], graph.fresh_name("mine"));
  });
  t.xnnpack("adds nodes", [](Graph& graph, Annotations&) {
    if (!graph.user_inputs().empty())
      graph.insert("aten.clone.default", {{"self", graph.user_inputs()[0]}},
                   graph.fresh_name("mine"), graph.user_inputs()[0]->meta, nullptr);
  });
  t.xnnpack("changes arguments", each("aten.conv2d", [](Node& node, QuantizationAnnotation&) {
              node.set_argument("groups", int64_t{1} + node.int_or("groups", 1));
            }));
  t.rows.push_back(
      {"its transform adds nodes each time", "xnnpack", "xnnpack", kNothing, [](Graph& graph) {
         for (Value* input : graph.user_inputs()) {
           const std::vector<Node*> users = input->users();
           if (users.empty() || input->meta->dtype != DType::kFloat32) continue;
           Node* copy = graph.insert("aten.clone.default", {{"self", input}},
                                     graph.fresh_name("copy"), input->meta, graph.nodes()[0]);
           for (Node* user : users) user->replace_input(input, copy->output());
         }
       }});
  t.rows.push_back(
      {"its transform drops activations", "xnnpack", "xnnpack", kNothing, [](Graph& graph) {
         for (Node* node : graph.nodes_of("aten.relu")) {
           graph.replace_uses(node->output(), node->inputs()[0]);
           graph.erase(*node);
         }
       }});
  t.rows.push_back({"it removes observers of results",
                    "xnnpack",
                    "xnnpack",
                    kNothing,
                    {},
                    [](ObserverMap& observers) {
                      for (auto& [place, observer] : observers)
                        if (std::holds_alternative<Value*>(place)) observer.reset();
                    }});
  t.rows.push_back(
      {"it swaps observers", "xnnpack", "xnnpack", kNothing, {}, [](ObserverMap& observers) {
         for (size_t i = 1; i < observers.size(); i += 2)
           std::swap(observers[i - 1].second, observers[i].second);
       }});
  t.xnnpack("throws", [](Graph&, Annotations&) { throw std::runtime_error("no"); });
  t.xnnpack("throws a number", [](Graph&, Annotations&) { throw 7; });
}

std::vector<QuantizerMutant> make_all() {
  Table table;
  for (void (*add)(Table&) :
       {add_wrong_specs, add_wrong_observers, add_wrong_edges, add_wrong_sharing,
        add_wrong_patterns, add_wrong_scales, add_unstable, add_edits})
    add(table);
  return std::move(table.rows);
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
