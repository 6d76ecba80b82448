// Opaque parts by class of module, and the hooks that a library registers for a class.
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_opaque_types {
namespace {

using test::reason_for;

// a: linear; first and last: a gate of relu and tanh each; b: linear between them.
constexpr const char* kGates =
    R"(graph(%x: f32[2,4], %w = param "a.weight": f32[4,4], %v = param "b.weight": f32[4,4]):
    %a: f32[2,4] = aten.linear.default(%x, %w)
    %r: f32[2,4] = aten.relu.default(%a)
    %t: f32[2,4] = aten.tanh.default(%r)
    %b: f32[2,4] = aten.linear.default(%t, %v)
    %s: f32[2,4] = aten.relu.default(%b)
    %u: f32[2,4] = aten.tanh.default(%s)
    return (%u))";
const test::ModuleStacks kTwoGates = {
    {"r", "0,,Net;1,first,my.Gate"},
    {"t", "0,,Net;1,first,my.Gate;2,first.act,torch.nn.modules.activation.Tanh"},
    {"s", "0,,Net;3,last,my.Gate"},
    {"u", "0,,Net;3,last,my.Gate;4,last.act,torch.nn.modules.activation.Tanh"}};

struct Prepared {
  ObservedGraph observed;
  Report report;
};

Prepared prepare_with(const std::string& opaque, const test::ModuleStacks& stacks = kTwoGates) {
  Graph graph = parse_graph(kGates);
  for (const auto& [name, stack] : stacks)
    graph.find_node(name)->metadata["nn_module_stack"] = stack;
  const std::unique_ptr<Quantizer> quantizer =
      parse_quantizer(R"({"base": "xnnpack", "global": {}, "opaque": )" + opaque + "}", "f.json");
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(graph), *quantizer, report);
  return {std::move(observed), std::move(report)};
}

std::string message_of(const std::string& opaque) {
  return test::error_message([&] { prepare_with(opaque); });
}

// "a -> t; b -> u": the inputs and outputs of each island.
std::string borders(const Prepared& prepared) {
  const auto names = [](const std::vector<Value*>& values) {
    std::string text;
    for (const Value* value : values) text += (text.empty() ? "" : " ") + value->name();
    return text;
  };
  std::string text;
  for (const Island& island : prepared.observed.islands)
    text += (text.empty() ? "" : "; ") + names(island.inputs) + " -> " + names(island.outputs);
  return text;
}

TEST_CASE("each module of an opaque class is an island", "[quantizers][opaque]") {
  const Prepared prepared = prepare_with(R"([{"module_type": "my.Gate"}])");
  CHECK(borders(prepared) == "a -> t; b -> u");
  for (const char* node : {"r", "t", "s", "u"})
    CHECK(reason_for(prepared.report, node) == "in the opaque part module_type \"my.Gate\"");
  const Annotations& annotations = prepared.observed.annotations;
  CHECK(annotations.find(prepared.observed.graph.find_node("b"))->rule == "linear");
  const std::vector<std::string>& notes = prepared.report.notes();
  CHECK(std::find(notes.begin(), notes.end(),
                  "opaque part module_type \"my.Gate\": 2 ops; input 0 %a; output 0 %t; and 1 more "
                  "such place") != notes.end());
}

TEST_CASE("each call of one module of an opaque class is an island", "[quantizers][opaque]") {
  const test::ModuleStacks stacks = {{"r", "0,,Net;1,gate,my.Gate"},
                                     {"t", "0,,Net;1,gate,my.Gate"},
                                     {"s", "0,,Net;1@1,gate,my.Gate"},
                                     {"u", "0,,Net;1@1,gate,my.Gate"}};
  CHECK(borders(prepare_with(R"([{"module_type": "my.Gate"}])", stacks)) == "a -> t; b -> u");
}

TEST_CASE("a module of an opaque class within another one belongs to the outer one",
          "[quantizers][opaque]") {
  const test::ModuleStacks stacks = {{"r", "0,,Net;1,gate,my.Gate"},
                                     {"t", "0,,Net;1,gate,my.Gate;2,gate.inner,my.Gate"},
                                     {"b", "0,,Net;1,gate,my.Gate;3,gate.fc,my.Linear"},
                                     {"s", "0,,Net;1,gate,my.Gate;2@1,gate.inner,my.Gate"},
                                     {"u", "0,,Net;1,gate,my.Gate"}};
  CHECK(borders(prepare_with(R"([{"module_type": "my.Gate"}])", stacks)) == "a -> u");
}

TEST_CASE("PyTorch's classes go by their short names in opaque parts too", "[quantizers][opaque]") {
  CHECK(borders(prepare_with(R"([{"module_type": "torch.nn.Tanh"}])")) == "r -> t; s -> u");
}

TEST_CASE("what an earlier part covers does not belong to an opaque class",
          "[quantizers][opaque]") {
  CHECK(borders(prepare_with(R"([{"module": "last"}, {"module_type": "my.Gate"}])")) ==
        "b -> u; a -> t");
}

TEST_CASE("an opaque class has a quantizer and specs at its border", "[quantizers][opaque]") {
  const Prepared prepared = prepare_with(
      R"([{"module_type": "my.Gate", "quantized_outputs": {"0": {"fixed": {"scale": 0.5, "zero_point": 0}, "dtype": "int8"}}}])");
  for (const char* node : {"t", "u"})
    CHECK(prepared.observed.annotations.find(prepared.observed.graph.find_node(node))
              ->output_qspec.has_value());
}

TEST_CASE("faults of opaque classes are errors with their place", "[quantizers][opaque]") {
  CHECK(message_of(R"([{"module_type": "my.Gait"}])") ==
        "quantizer: f.json: /opaque/0: module_type \"my.Gait\" is not the type of any module of "
        "the model, the closest: my.Gate, torch.nn.modules.activation.Tanh, Net");
  CHECK(message_of(R"([{"module_type": "my.Gate", "module": "first"}])") ==
        "quantizer: f.json: /opaque/0: opaque part: names several kinds of ops, want exactly one "
        "of module, module_type, op and ops");
  CHECK(message_of(R"([{"module_type": ""}])") ==
        "quantizer: f.json: /opaque/0/module_type: got \"\", want a string of one line that is not "
        "empty");
  CHECK(message_of(R"([{"module_type": 3}])") ==
        "quantizer: f.json: /opaque/0/module_type: got 3, want a string of one line that is not "
        "empty");
}

// ---- hooks ----

// Puts one op in the place of the island's.
void put_op(Graph& graph, Island& island, const char* target) {
  Node& last = *island.nodes.back();
  Node* op = graph.insert(target, {{"input", island.inputs.at(0)}},
                          island.outputs.at(0)->name() + "_op", last.output()->meta, &last);
  graph.replace_uses(last.output(), op->output());
  for (size_t i = island.nodes.size(); i-- > 0;) graph.erase(*island.nodes[i]);
}

void register_gate_hooks() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  register_opaque_hooks(
      "test.HookedGate",
      {[](Graph& graph, Island& island) { put_op(graph, island, "octet_test.observed.default"); },
       [](ObservedGraph& observed, Island& island) {
         put_op(observed.graph, island, "octet_test.quantized.default");
       }});
}

test::ModuleStacks hooked_stacks() {
  test::ModuleStacks stacks = kTwoGates;
  for (auto& [node, stack] : stacks) test::replace_all(stack, "my.Gate", "test.HookedGate");
  return stacks;
}

size_t count_of(const Graph& graph, const char* target) { return graph.nodes_of(target).size(); }

TEST_CASE("hooks registered for a class work on every module of it that a file names",
          "[quantizers][opaque]") {
  register_gate_hooks();
  Prepared prepared = prepare_with(R"([{"module_type": "test.HookedGate"}])", hooked_stacks());
  CHECK(count_of(prepared.observed.graph, "octet_test.observed.default") == 2);
  CHECK(count_of(prepared.observed.graph, "aten.tanh.default") == 0);
  CalibrateOptions options;
  int calls = 0;
  options.handlers["octet_test.observed.default"] =
      [&](const Node&, const std::vector<c10::IValue>& arguments) -> std::vector<c10::IValue> {
    ++calls;
    return {at::tanh(arguments.at(0).toTensor().relu())};
  };
  for (auto& [name, constant] : prepared.observed.graph.constants)
    constant.tensor = from_aten(at::ones(constant.tensor.shape()));
  bool is_done = false;
  const BatchSource batches = [&]() -> std::optional<std::vector<c10::IValue>> {
    if (std::exchange(is_done, true)) return std::nullopt;
    return std::vector<c10::IValue>{at::ones({2, 4})};
  };
  calibrate(prepared.observed, batches, options);
  CHECK(calls == 2);
  const Graph converted = convert_pt2e(std::move(prepared.observed), {}, prepared.report);
  CHECK(count_of(converted, "octet_test.quantized.default") == 2);
  CHECK(count_of(converted, "octet_test.observed.default") == 0);
}

TEST_CASE("registered hooks leave modules alone that no file names by class",
          "[quantizers][opaque]") {
  register_gate_hooks();
  CHECK(count_of(prepare_with(R"([{"module": "first"}])", hooked_stacks()).observed.graph,
                 "octet_test.observed.default") == 0);
}

TEST_CASE("hooks of a part's own win over registered ones", "[quantizers][opaque]") {
  register_gate_hooks();
  OpaquePart part;
  part.module_type = "test.HookedGate";
  CHECK(with_registered_hooks(part).float_to_observed);
  part.observed_to_quantized = [](ObservedGraph&, Island&) {};
  CHECK_FALSE(with_registered_hooks(part).float_to_observed);
  OpaquePart other;
  other.module_type = "my.Gate";
  CHECK_FALSE(with_registered_hooks(other).float_to_observed);
}

TEST_CASE("a recorded part of a class with hooks is an error", "[quantizers][opaque]") {
  register_gate_hooks();
  CHECK_THROWS_WITH(
      prepare_with(R"([{"module_type": "test.HookedGate", "recorded": true}])", hooked_stacks()),
      "quantizer: module_type \"test.HookedGate\": is recorded and has a hook float_to_observed, "
      "whose nodes would not run; leave out one of them");
}

TEST_CASE("registering hooks checks the class and the pair", "[quantizers][opaque]") {
  register_gate_hooks();
  const OpaqueHooks hooks = {[](Graph&, Island&) {}, {}};
  CHECK_THROWS_WITH(register_opaque_hooks("", hooks),
                    "quantizer: opaque hooks of \"\": the class is empty, want e.g. \"my.Lstm\"");
  CHECK_THROWS_WITH(register_opaque_hooks("my.Other", {}),
                    "quantizer: opaque hooks of \"my.Other\": got no hook, want at least one of "
                    "the two");
  CHECK_THROWS_WITH(register_opaque_hooks("test.HookedGate", hooks),
                    "quantizer: opaque hooks of \"test.HookedGate\": the class has hooks already, "
                    "as \"test.HookedGate\"; register one pair for each");
}

}  // namespace
}  // namespace octet::test_opaque_types
