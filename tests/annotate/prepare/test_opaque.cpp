// Opaque parts in calibration and convert: custom ops without kernel, recorded tensors, hooks,
// bodies of control flow.
#include <algorithm>

#include <ATen/core/Generator.h>
#include <ATen/ops/sigmoid.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/calibrate/recorded_parts.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/observed/observer_state.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include "support/error_message.h"
#include "support/graph_matchers.h"

namespace octet::test_opaque {
namespace {

// A RuleQuantizer that does not annotate opaque parts.
class PartialQuantizer : public test::RuleQuantizer {
 public:
  explicit PartialQuantizer(std::vector<OpaquePart> parts)
      : RuleQuantizer(test::linear_rules()), parts_(std::move(parts)) {}
  const std::vector<OpaquePart>* opaque_parts() const override { return &parts_; }

 private:
  std::vector<OpaquePart> parts_;
};

constexpr const char* kGated = R"(
graph(%w = param "a.weight": f32[4,4], %v = param "b.weight": f32[4,4], %x: f32[2,4]):
  %a: f32[2,4] = aten.linear.default(%x, %w)
  %g: f32[2,4] = octet_test.gate.default(%a)
  %b: f32[2,4] = aten.linear.default(%g, %v)
  return (%b))";

OpaquePart gate_part() {
  OpaquePart part;
  part.op = "octet_test.gate.default";
  return part;
}

ObservedGraph prepare_gated(OpaquePart part, Report& report) {
  Graph graph = parse_graph(kGated);
  test::fill_floats(graph);
  PartialQuantizer quantizer({std::move(part)});
  return prepare_pt2e(std::move(graph), quantizer, report);
}

std::vector<c10::IValue> run_gate(const Node&, const std::vector<c10::IValue>& arguments) {
  return {at::sigmoid(arguments.at(0).toTensor())};
}

using Batches = std::vector<std::vector<c10::IValue>>;

BatchSource source_of(Batches batches) {
  return [batches = std::move(batches),
          i = size_t{0}]() mutable -> std::optional<std::vector<c10::IValue>> {
    if (i == batches.size()) return std::nullopt;
    return batches[i++];
  };
}

Batches data_for(const Graph& graph) {
  return {test::random_inputs(graph, 5), test::random_inputs(graph, 6)};
}

// The results of the custom op for each batch.
Batches record(const Batches& data) {
  const Graph graph = [] {
    Graph gated = parse_graph(kGated);
    test::fill_floats(gated);
    return gated;
  }();
  Batches recorded;
  InterpreterOptions options;
  options.handlers["octet_test.gate.default"] = run_gate;
  options.after_node = [&](const Node& node, const std::vector<c10::IValue>& results) {
    if (node.name() == "g") recorded.push_back(results);
  };
  Interpreter interpreter(graph, options);
  for (const std::vector<c10::IValue>& batch : data) interpreter.run(batch);
  return recorded;
}

template <typename Work>
std::string message_of(const Work& work) {
  return test::error_message([&] { work(); });
}

TEST_CASE("an op without kernel stops calibration with its name and what to do",
          "[annotate][opaque]") {
  Report report;
  ObservedGraph observed = prepare_gated(gate_part(), report);
  CHECK(message_of([&] { calibrate(observed, data_for(observed.graph)); }) ==
        "calibrate: %g: octet_test.gate.default has no kernel here, so the program cannot run; "
        "load the library that has it (--library LIB.so), or "
        "keep "
        "it whole (\"opaque\": [{\"op\": \"octet_test.gate.default\", \"recorded\": true}]) and "
        "give what it returned in PyTorch (--recorded R.pt)");
}

TEST_CASE("calibration runs a custom op through a handler", "[annotate][opaque]") {
  Report report;
  ObservedGraph observed = prepare_gated(gate_part(), report);
  CalibrateOptions options;
  options.handlers["octet_test.gate.default"] = run_gate;
  CHECK(calibrate(observed, source_of(data_for(observed.graph)), options) == 2);
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  CHECK(converted.find_node("g")->find_input("input") == nullptr);
  CHECK(test::count_of(converted, "octet_test.gate.default") == 1);
}

TEST_CASE("recorded tensors in the place of an op give the observers the same state as running it",
          "[annotate][opaque]") {
  Report report;
  ObservedGraph run = prepare_gated(gate_part(), report);
  const Batches data = data_for(run.graph);
  CalibrateOptions options;
  options.handlers["octet_test.gate.default"] = run_gate;
  calibrate(run, source_of(data), options);

  OpaquePart part = gate_part();
  part.is_recorded = true;
  ObservedGraph cut = prepare_gated(part, report);
  calibrate(cut, source_of(data), {.recorded = source_of(record(data))});

  REQUIRE(cut.observers.size() == run.observers.size());
  for (size_t i = 0; i < cut.observers.size(); ++i)
    CHECK(cut.observers[i]->state() == run.observers[i]->state());
  CHECK(to_text(convert_pt2e(std::move(cut), {}, report)) ==
        to_text(convert_pt2e(std::move(run), {}, report)));
}

TEST_CASE("the cut program has the outputs of recorded parts as inputs", "[annotate][opaque]") {
  Report report;
  OpaquePart part = gate_part();
  part.is_recorded = true;
  const ObservedGraph observed = prepare_gated(part, report);
  const ObservedGraph cut = cut_recorded_parts(observed);
  CHECK(test::targets(cut.graph) ==
        "observe.default observe.default observe.default linear.default observe.default "
        "observe.default linear.default observe.default");
  REQUIRE(cut.graph.user_inputs().size() == 2);
  CHECK(cut.graph.user_inputs()[1]->name() == "g");
  CHECK(observed.graph.find_node("g") != nullptr);
}

TEST_CASE("recorded tensors that are missing, unwanted or too few are errors",
          "[annotate][opaque]") {
  Report report;
  OpaquePart part = gate_part();
  part.is_recorded = true;
  ObservedGraph observed = prepare_gated(part, report);
  const Batches data = data_for(observed.graph);
  CHECK(message_of([&] { calibrate(observed, data); }) ==
        "calibrate: %g: is recorded and does not run in calibration, got no recorded tensors; give "
        "them (--recorded R.pt)");
  CHECK(message_of([&] {
          calibrate(observed, source_of(data), {.recorded = source_of({{}, {}})});
        }) == "calibrate: batch 0: got 0 recorded tensors, want 1: %g");
  CHECK(message_of([&] {
          calibrate(observed, source_of(data), {.recorded = source_of({record(data).front()})});
        }) == "calibrate: batch 1: there are no recorded tensors, want 1: %g");
  ObservedGraph plain = prepare_gated(gate_part(), report);
  CHECK(message_of(
            [&] { calibrate(plain, source_of(data), {.recorded = source_of(record(data))}); }) ==
        "calibrate: recorded: got recorded tensors, but no opaque part is recorded; set "
        "\"recorded\": true on the part");
}

TEST_CASE("hooks replace a part by an observed and then a quantized form", "[annotate][opaque]") {
  OpaquePart part = gate_part();
  float seen = 0;
  part.float_to_observed = [](Graph& graph, Island& island) {
    Node* gate = island.nodes.front();
    Node* observed = graph.insert("octet_test.observed_gate.default", gate->arguments(),
                                  "observed_gate", gate->output()->meta, gate);
    graph.replace_uses(gate->output(), observed->output());
    graph.erase(*gate);
  };
  part.observed_to_quantized = [&](ObservedGraph& observed, Island& island) {
    REQUIRE(seen > 0);
    Node* gate = island.nodes.front();
    REQUIRE(gate->target() == "octet_test.observed_gate.default");
    std::vector<NamedArgument> arguments = gate->arguments();
    arguments.push_back({"limit", static_cast<double>(seen)});
    Node* quantized = observed.graph.insert("octet_test.quantized_gate.default", arguments,
                                            "quantized_gate", gate->output()->meta, gate);
    observed.graph.replace_uses(gate->output(), quantized->output());
    observed.graph.erase(*gate);
  };
  Report report;
  ObservedGraph observed = prepare_gated(part, report);
  CHECK(test::count_of(observed.graph, "octet_test.observed_gate.default") == 1);
  CalibrateOptions options;
  options.handlers["octet_test.observed_gate.default"] =
      [&](const Node& node, const std::vector<c10::IValue>& arguments) {
        seen = std::max(seen, arguments.at(0).toTensor().abs().max().item<float>());
        return run_gate(node, arguments);
      };
  calibrate(observed, source_of(data_for(observed.graph)), options);
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  CHECK(test::count_of(converted, "octet_test.*") == 1);
  CHECK(converted.find_node("quantized_gate")->float_or("limit", 0) == seen);
}

TEST_CASE("a branch that an opaque module calls stays float", "[annotate][opaque]") {
  Graph graph = parse_graph(R"(
graph(%w = param "l.weight": f32[2,2], %p: b8[], %x: f32[1,2]):
  %y: f32[1,2] = higher_order.cond(%p,
    graph "yes" (%ax: f32[1,2], %aw: f32[2,2]):
      %a: f32[1,2] = aten.linear.default(%ax, %aw)
      return (%a),
    graph "no" (%bx: f32[1,2], %bw: f32[2,2]):
      %b: f32[1,2] = aten.linear.default(%bx, %bw)
      return (%b), [%x, %w]) as cond
  %z: f32[1,2] = aten.linear.default(%y, %w)
  return (%z))");
  graph.find_node("cond")->metadata["nn_module_stack"] = "0,,Net;1,choice,my.Choice";
  OpaquePart part;
  part.module = "choice";
  PartialQuantizer quantizer({part});
  Report report;
  const ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  CHECK(observer_nodes(observed.graph).size() == 3);  // of %z
  std::string reasons;
  for (const ReportEntry& entry : report.entries())
    reasons += entry.node + ": " + entry.reason + "\n";
  CHECK(
      reasons ==
      "yes.a: in the opaque part module \"choice\"\nno.b: in the opaque part module \"choice\"\n");
}

TEST_CASE("a quantizer that annotates what is hidden from it is named", "[annotate][opaque]") {
  class Greedy : public PartialQuantizer {
   public:
    using PartialQuantizer::PartialQuantizer;
    std::string name() const override { return "greedy"; }
    void annotate(Graph& graph, Annotations& annotations, Report&) override {
      for (Node* node : graph.nodes())
        annotations[node].output_qspec = FixedQParamsQuantizationSpec{};
    }
  };
  Greedy quantizer({gate_part()});
  Report report;
  CHECK(message_of([&] { prepare_pt2e(parse_graph(kGated), quantizer, report); }) ==
        "quantizer: %g: quantizer \"greedy\" has annotated an op that an opaque part hides from "
        "it; keep to the ops that are not claimed");
}

TEST_CASE("a batch norm folded at the border of a part moves the border", "[annotate][opaque]") {
  Graph graph = parse_graph(R"(
graph(%w = param "c.weight": f32[2,3,3,3], %m = buffer "n.mean": f32[2], %v = buffer "n.var": f32[2], %x: f32[1,3,8,8]):
  %c: f32[1,2,6,6] = aten.conv2d.default(%x, %w)
  %n: f32[1,2,6,6] = aten.batch_norm.default(%c, None, None, %m, %v, False, 0.1, 1e-05, True)
  %g: f32[1,2,6,6] = octet_test.gate.default(%n)
  return (%g))");
  OpaquePart part = gate_part();
  part.quantized_inputs[0] = FixedQParamsQuantizationSpec{};
  PartialQuantizer quantizer({part});
  Report report;
  const ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  CHECK(test::targets(observed.graph) == "conv2d.default observe.default gate.default");
  CHECK(observed.islands.front().inputs == std::vector<Value*>{observed.graph.find_value("c")});
}

TEST_CASE("an opaque module that the program lacks is an error without the command too",
          "[annotate][opaque]") {
  OpaquePart part;
  part.module = "nowhere";
  PartialQuantizer quantizer({part});
  Report report;
  CHECK(message_of([&] { prepare_pt2e(parse_graph(kGated), quantizer, report); }) ==
        "quantizer: module \"nowhere\": covers no op of the program; correct the opaque part's "
        "name or leave it out");
}

// A gate whose observed form is two ops with Octet's observers around the second one, and whose
// quantized form has their scales.
OpaquePart observed_gate() {
  OpaquePart part = gate_part();
  part.quantizer = std::make_shared<test::RuleQuantizer>(nlohmann::ordered_json::parse(
      R"([{"target": "aten.sigmoid.default", "inputs": {"0": )" + test::act_spec().dump() +
      R"(}, "output": )" + test::act_spec().dump() + "}]"));
  part.float_to_observed = [](Graph& graph, Island& island) {
    Node* gate = island.nodes.front();
    Node* scaled = graph.insert("octet_test.scale.default", gate->arguments(), "scaled",
                                gate->output()->meta, gate);
    Node* sigmoid = graph.insert("aten.sigmoid.default", {{"self", scaled->output()}}, "inner",
                                 gate->output()->meta, gate);
    graph.replace_uses(gate->output(), sigmoid->output());
    graph.erase(*gate);
  };
  part.observed_to_quantized = [](ObservedGraph& observed, Island& island) {
    Node* scaled = island.nodes.front();
    Node* sigmoid = island.nodes.back();
    REQUIRE(sigmoid->find_input("self") == scaled->output());
    std::vector<NamedArgument> arguments = scaled->arguments();
    arguments.push_back({"in", double{qparams_of(observed, *scaled->output()).scale.at(0)}});
    arguments.push_back({"out", double{qparams_of(observed, *sigmoid->output()).scale.at(0)}});
    Node* quantized = observed.graph.insert("octet_test.quantized_gate.default", arguments,
                                            "quantized_gate", sigmoid->output()->meta, sigmoid);
    observed.graph.replace_uses(sigmoid->output(), quantized->output());
  };
  return part;
}

TEST_CASE("the quantized form of a part has the scales of Octet's observers in the observed one",
          "[annotate][opaque]") {
  Report report;
  ObservedGraph observed = prepare_gated(observed_gate(), report);
  ObservedGraph restored = prepare_gated(observed_gate(), report);
  CalibrateOptions options;
  float most = 0;
  options.handlers["octet_test.scale.default"] =
      [&](const Node&, const std::vector<c10::IValue>& arguments) -> std::vector<c10::IValue> {
    const at::Tensor scaled = arguments.at(0).toTensor() * 3;
    most = std::max(most, scaled.max().item<float>() - scaled.min().item<float>());
    return {scaled};
  };
  calibrate(observed, source_of({data_for(observed.graph).front()}), options);
  observer_state_from_json(restored, observer_state_to_json(observed), "state");
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  CHECK(test::count_of(converted, "octet_test.*") == 1);
  CHECK(test::count_of(converted, "aten.sigmoid.default") == 0);
  CHECK(test::count_of(converted, "octet.observe.default") == 0);
  const Node* gate = converted.find_node("quantized_gate");
  CHECK(gate->float_or("in", 0) == Approx(most / 255));
  CHECK(gate->float_or("out", 0) > 0);
  CHECK(to_text(convert_pt2e(std::move(restored), {}, report)) == to_text(converted));
}

TEST_CASE("what hooks throw or break names the part", "[annotate][opaque]") {
  const std::string who = "opaque part op octet_test.gate.default: its ";
  const auto prepared = [&](const auto& hook) {
    return message_of([&] {
      OpaquePart part = gate_part();
      part.float_to_observed = hook;
      Report report;
      prepare_gated(part, report);
    });
  };
  CHECK(prepared([](Graph&, Island&) { throw std::runtime_error("no SRAM"); }) ==
        "prepare: " + who + "float_to_observed() says: no SRAM");
  CHECK(prepared([](Graph& graph, Island& island) {
          Node* gate = island.nodes.front();
          Node* sum = graph.insert("aten.sum.default", {{"self", island.inputs.front()}}, "sum",
                                   gate->output()->meta, gate);
          graph.replace_uses(gate->output(), sum->output());
        }) == "prepare: " + who +
                  "float_to_observed() says that %sum is f32[2, 4], but aten.sum.default gives "
                  "f32[]");
  OpaquePart part = gate_part();
  part.observed_to_quantized = [](ObservedGraph&, Island&) { throw 7; };
  Report report;
  ObservedGraph observed = prepare_gated(part, report);
  CalibrateOptions options;
  options.handlers["octet_test.gate.default"] = run_gate;
  calibrate(observed, source_of(data_for(observed.graph)), options);
  CHECK(message_of([&] { convert_pt2e(std::move(observed), {}, report); }) ==
        "convert: " + who +
            "observed_to_quantized() threw something that is not a std::exception; throw an "
            "octet::Error");
}

}  // namespace
}  // namespace octet::test_opaque
