// Quantization within the bodies of scan, while_loop and cond.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/graph/control_flow.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include "support/graph_matchers.h"

namespace octet::test_control_flow {
namespace {

using Json = nlohmann::ordered_json;
using test::PrintsAs;
using test::RuleQuantizer;

const Json kRules = test::linear_rules();

constexpr const char* kScan = R"(
graph(%w = param "l.weight": f32[2,2], %b = param "l.bias": f32[2], %c: f32[1,2], %x: f32[3,1,2]):
  %last: f32[1,2], %all: f32[3,1,2] = higher_order.scan(
    graph "body" (%carry: f32[1,2], %row: f32[1,2], %bw: f32[2,2], %bb: f32[2]):
      %y: f32[1,2] = aten.linear.default(%row, %bw, %bb)
      %n: f32[1,2] = aten.add.Tensor(%y, %carry)
      return (%n, %y), [%c], [%x], [%w, %b]) as scan
  return (%last, %all))";

constexpr const char* kCond = R"(
graph(%w = param "l.weight": f32[2,2], %p: b8[], %x: f32[1,2]):
  %y: f32[1,2] = higher_order.cond(%p,
    graph "yes" (%ax: f32[1,2], %aw: f32[2,2]):
      %a: f32[1,2] = aten.linear.default(%ax, %aw)
      return (%a),
    graph "no" (%bx: f32[1,2], %bw: f32[2,2]):
      %b: f32[1,2] = aten.linear.default(%bx, %bw)
      %r: f32[1,2] = aten.relu.default(%b)
      return (%r), [%x, %w]) as cond
  return (%y))";

Graph with_weights(const char* text) {
  Graph graph = parse_graph(text);
  float* weight = graph.constants.at("l.weight").tensor.data<float>();
  for (int i = 0; i < 4; ++i) weight[i] = 0.3F * static_cast<float>(i) - 0.5F;
  return graph;
}

std::vector<c10::IValue> scan_batch(double last) {
  return {at::full({1, 2}, 0.25), at::linspace(-1.0, last, 6, at::kFloat).reshape({3, 1, 2})};
}
std::vector<c10::IValue> cond_batch(bool which) {
  return {at::full({}, which, at::kBool), at::linspace(-1.0, 2.0, 2, at::kFloat).reshape({1, 2})};
}

ObservedGraph prepare(Graph graph, Report& report, bool compat = false) {
  RuleQuantizer quantizer(kRules);
  PrepareOptions options;
  options.compat = compat ? Compat::kTorchao : Compat::kNone;
  return prepare_pt2e(std::move(graph), quantizer, report, options);
}

Graph quantize(const char* text, const std::vector<std::vector<c10::IValue>>& batches,
               Report& report, bool compat = false) {
  ObservedGraph observed = prepare(with_weights(text), report, compat);
  calibrate(observed, batches);
  ConvertOptions options;
  options.compat = compat ? Compat::kTorchao : Compat::kNone;
  return convert_pt2e(std::move(observed), options, report);
}

std::vector<at::Tensor> run(const Graph& graph, const std::vector<c10::IValue>& inputs) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : Interpreter(graph).run(inputs))
    tensors.push_back(value.toTensor());
  return tensors;
}

const Graph& body_of(const Graph& graph, const std::string& path) {
  for (const Body& body : bodies_within(graph))
    if (body.path == path) return *body.graph;
  throw std::runtime_error("no body " + path);
}

// The ops of a graph without namespace and overload, separated by blanks.
std::string ops(const Graph& graph) {
  std::vector<std::string> result;
  for (const Node* node : graph.nodes()) {
    const std::string rest = node->target().substr(node->target().find('.') + 1);
    result.push_back(rest.substr(0, rest.find('.')));
  }
  return fmt::format("{}", fmt::join(result, " "));
}

std::string reasons(const Report& report) {
  std::string text;
  for (const ReportEntry& entry : report.entries()) text += entry.node + ": " + entry.reason + "\n";
  return text;
}

constexpr const char* kQuantizedLinear =
    "dequantize_per_channel quantize_per_tensor dequantize_per_tensor linear quantize_per_tensor "
    "dequantize_per_tensor";

}  // namespace

TEST_CASE("the observer nodes of a scan's body are inside it, and its constants too",
          "[annotate][control]") {
  Report report;
  const ObservedGraph observed = prepare(with_weights(kScan), report);
  CHECK_THAT(observed.graph, PrintsAs(R"(
graph(%w = param "l.weight": f32[2,2], %b = param "l.bias": f32[2], %c: f32[1,2], %x: f32[3,1,2]):
  %last: f32[1,2], %all: f32[3,1,2] = higher_order.scan(graph "body" (%bw = param "l.weight": f32[2,2] nograd, %bb = param "l.bias": f32[2] nograd, %carry: f32[1,2], %row: f32[1,2]):
    %activation_post_process_1: f32[2,2] = octet.observe.default(input=%bw, group=1)
    %activation_post_process_0: f32[1,2] = octet.observe.default(input=%row, group=0)
    %y: f32[1,2] = aten.linear.default(%activation_post_process_0, %activation_post_process_1, %bb)
    %activation_post_process_2: f32[1,2] = octet.observe.default(input=%y, group=2)
    %n: f32[1,2] = aten.add.Tensor(%activation_post_process_2, %carry)
    return (%n, %activation_post_process_2), [%c], [%x], values[])
  return (%last, %all))"));
  CHECK(observed.observers.size() == 3);
}

TEST_CASE("groups count through the program and its bodies", "[annotate][control]") {
  Report report;
  const ObservedGraph observed = prepare(with_weights(kCond), report);
  std::vector<int> groups;
  for (const Node* point : observer_nodes(observed.graph)) groups.push_back(group_of(*point));
  CHECK(groups == std::vector<int>{1, 0, 2, 4, 3, 5});
  CHECK(observed.observers.size() == 6);
}

TEST_CASE("an observer within a scan sees each row of each batch", "[annotate][control]") {
  Report report;
  ObservedGraph observed = prepare(with_weights(kScan), report);
  calibrate(observed, {scan_batch(2.0), scan_batch(5.0)});
  const ObserverState state = observed.observers.at(0)->state();
  CHECK(state.min == std::vector<float>{-1.0F});
  CHECK(state.max == std::vector<float>{5.0F});
}

TEST_CASE(
    "a quantized scan takes int8 weights and their scales as operands; the float weight is gone",
    "[annotate][control]") {
  Report report;
  const Graph quantized = quantize(kScan, {scan_batch(2.0)}, report);
  CHECK(ops(body_of(quantized, "body")) == std::string(kQuantizedLinear) + " add");
  CHECK(ops(quantized) == "scan");
  std::vector<std::string> names;
  for (const auto& [fqn, constant] : quantized.constants)
    names.push_back(fmt::format("{} {}", fqn, describe(constant.tensor)));
  CHECK(fmt::format("{}", fmt::join(names, ", ")) ==
        "_frozen_param0 i8[2, 2], _scale_0 f32[2], _zero_point_0 i64[2], l.bias f32[2]");
  CHECK(body_of(quantized, "body").constants.empty());
  CHECK(reasons(report) == "body.n: no rule of the quantizer gave it a spec\n");
}

TEST_CASE("a quantized scan gives what the unrolled program gives", "[annotate][control]") {
  constexpr const char* kRows = R"(
graph(%w = param "l.weight": f32[2,2], %b = param "l.bias": f32[2], %c: f32[1,2], %x: f32[3,1,2]):
  %y: f32[3,1,2] = aten.linear.default(%x, %w, %b)
  return (%y))";
  Report report;
  const std::vector<c10::IValue> batch = scan_batch(2.0);
  const std::vector<at::Tensor> rows = run(quantize(kRows, {batch}, report), batch);
  for (const bool compat : {false, true}) {
    CAPTURE(compat);
    const std::vector<at::Tensor> scanned = run(quantize(kScan, {batch}, report, compat), batch);
    CHECK(at::equal(scanned.at(1), rows.at(0)));
    CHECK(at::allclose(scanned.at(0), rows.at(0).sum(0).add(0.25)));
  }
}

TEST_CASE("compat: a weight is quantized in each step of a loop, and the scales are operands",
          "[annotate][control]") {
  Report report;
  const Graph quantized = quantize(kScan, {scan_batch(2.0)}, report, true);
  CHECK(ops(body_of(quantized, "body")) ==
        "quantize_per_tensor dequantize_per_tensor quantize_per_channel dequantize_per_channel "
        "linear quantize_per_tensor dequantize_per_tensor add");
  CHECK(quantized.constants.contains("l.weight"));
  const Node& scan = *quantized.find_node("scan");
  CHECK(scan.arguments().back().value.find<std::vector<Value*>>()->size() == 4);
}

TEST_CASE("both branches of a cond are quantized", "[annotate][control]") {
  Report report;
  const Graph quantized = quantize(kCond, {cond_batch(true), cond_batch(false)}, report);
  CHECK(ops(body_of(quantized, "yes")) == kQuantizedLinear);
  CHECK(ops(body_of(quantized, "no")) == std::string(kQuantizedLinear) + " relu");
  CHECK_FALSE(quantized.constants.contains("l.weight"));
  verify(quantized);
  for (const bool which : {true, false}) CHECK(run(quantized, cond_batch(which)).size() == 1);
}

TEST_CASE("a branch may run for the first time in any batch", "[annotate][control]") {
  Report report;
  const Graph quantized =
      quantize(kCond, {cond_batch(true), cond_batch(true), cond_batch(false)}, report);
  CHECK(ops(body_of(quantized, "no")) == std::string(kQuantizedLinear) + " relu");
}

TEST_CASE("a branch that calibration did not run stays float, with the reason",
          "[annotate][control]") {
  Report report;
  const Graph quantized = quantize(kCond, {cond_batch(true)}, report);
  CHECK(ops(body_of(quantized, "yes")) == kQuantizedLinear);
  CHECK(ops(body_of(quantized, "no")) == "linear relu");
  CHECK(quantized.constants.contains("l.weight"));
  CHECK(reasons(report) ==
        "no.b: no did not run with the calibration data\n"
        "no.r: no rule of the quantizer gave it a spec\n");
  CHECK(at::equal(run(quantized, cond_batch(false)).at(0),
                  run(with_weights(kCond), cond_batch(false)).at(0)));
}

TEST_CASE("branches without any calibration are an error, not a float program",
          "[annotate][control]") {
  Report report;
  CHECK_THROWS_WITH(convert_pt2e(prepare(with_weights(kCond), report), {}, report),
                    "convert: %aw (observer group 1): the per_channel_min_max observer saw no "
                    "data, got 0 samples, want at least 1; calibrate before "
                    "converting, with data for which this branch or loop runs");
}

TEST_CASE("compat: branches of a cond stay float, with the reason", "[annotate][control]") {
  Report report;
  const ObservedGraph observed = prepare(with_weights(kCond), report, true);
  CHECK(observer_nodes(observed.graph).empty());
  CHECK(reasons(report) ==
        "cond: bodies of higher_order.cond are not quantized (compat torchao)\n");
}

TEST_CASE("the body of a while_loop is quantized, its condition is not", "[annotate][control]") {
  Report report;
  const Graph quantized = quantize(R"(
graph(%w = param "l.weight": f32[2,2], %i: i64[], %x: f32[1,2]):
  %j: i64[], %y: f32[1,2] = higher_order.while_loop(
    graph "go" (%gi: i64[], %gx: f32[1,2], %gw: f32[2,2]):
      %l: f32[1,2] = aten.linear.default(%gx, %gw)
      %t: b8[] = aten.lt.Scalar(%gi, 3)
      return (%t),
    graph "body" (%bi: i64[], %bx: f32[1,2], %bw: f32[2,2]):
      %k: i64[] = aten.add.Tensor(%bi, 1)
      %m: f32[1,2] = aten.linear.default(%bx, %bw)
      return (%k, %m), [%i, %x], [%w]) as loop
  return (%y))",
                                   {{at::full({}, 0, at::kLong), at::full({1, 2}, 1.5)}}, report);
  CHECK(ops(body_of(quantized, "go")) == "linear lt");
  CHECK(ops(body_of(quantized, "body")) ==
        "dequantize_per_channel quantize_per_tensor dequantize_per_tensor add linear "
        "quantize_per_tensor dequantize_per_tensor");
  verify(quantized);
  CHECK(run(quantized, {at::full({}, 0, at::kLong), at::full({1, 2}, 1.5)}).size() == 1);
}

TEST_CASE("the body of a map is quantized", "[annotate][control]") {
  Report report;
  const Graph quantized = quantize(R"(
graph(%w = param "l.weight": f32[2,2], %c: f32[1,2], %x: f32[3,1,2]):
  %y: f32[3,1,2] = higher_order.map_impl(
    graph "each" (%row: f32[1,2], %bw: f32[2,2], %bc: f32[1,2]):
      %m: f32[1,2] = aten.linear.default(%row, %bw)
      %n: f32[1,2] = aten.add.Tensor(%m, %bc)
      return (%n), [%x], [%w, %c]) as map
  return (%y))",
                                   {scan_batch(2.0)}, report);
  CHECK(ops(body_of(quantized, "each")) == std::string(kQuantizedLinear) + " add");
  CHECK_FALSE(quantized.constants.contains("l.weight"));
  CHECK(run(quantized, scan_batch(2.0)).at(0).sizes() == at::IntArrayRef({3, 1, 2}));
}

TEST_CASE("without folding the float weight stays an operand", "[annotate][control]") {
  Report report;
  ObservedGraph observed = prepare(with_weights(kScan), report);
  calibrate(observed, {scan_batch(2.0)});
  ConvertOptions options;
  options.fold_quantize = false;
  const Graph quantized = convert_pt2e(std::move(observed), options, report);
  CHECK(quantized.constants.contains("l.weight"));
  CHECK(body_of(quantized, "body")
            .nodes_of("quantized_decomposed.quantize_per_channel.default")
            .size() == 1);
  CHECK(at::equal(run(quantized, scan_batch(2.0)).at(0),
                  run(quantize(kScan, {scan_batch(2.0)}, report), scan_batch(2.0)).at(0)));
}

TEST_CASE("a weight reaches a body within a body", "[annotate][control]") {
  constexpr const char* kNested = R"(
graph(%w = param "l.weight": f32[2,2], %c: f32[1,2], %x: f32[3,1,2]):
  %last: f32[1,2], %all: f32[3,1,2] = higher_order.scan(
    graph "outer" (%carry: f32[1,2], %row: f32[1,2], %ow: f32[2,2]):
      %y: f32[1,2] = higher_order.cond(True,
        graph "inner" (%ix: f32[1,2], %iw: f32[2,2]):
          %a: f32[1,2] = aten.linear.default(%ix, %iw)
          return (%a),
        graph "other" (%nx: f32[1,2], %nw: f32[2,2]):
          return (%nx), [%row, %ow]) as choose
      return (%y, %y), [%c], [%x], [%w]) as scan
  return (%all))";
  Report report;
  const Graph quantized = quantize(kNested, {scan_batch(2.0)}, report);
  CHECK(ops(body_of(quantized, "outer.inner")) == kQuantizedLinear);
  CHECK_FALSE(quantized.constants.contains("l.weight"));
  CHECK(run(quantized, scan_batch(2.0)).size() == 1);
}

TEST_CASE("constants go into bodies and come out again", "[annotate][control]") {
  Graph graph = with_weights(kCond);
  const std::string before = to_text(graph);
  CHECK(move_constants_into_bodies(graph) == 1);
  CHECK(body_of(graph, "no").constants.size() == 1);
  CHECK(move_constants_into_bodies(graph) == 0);
  CHECK(move_constants_out_of_bodies(graph) == 1);
  CHECK(move_constants_out_of_bodies(graph) == 0);
  CHECK(to_text(graph) == before);
}

TEST_CASE("a constant that the program writes to stays an operand", "[annotate][control]") {
  Graph graph = parse_graph(R"(
graph(%w = buffer "state": f32[1,2], %p: b8[], %x: f32[1,2]):
  %y: f32[1,2] = higher_order.cond(%p,
    graph "yes" (%ax: f32[1,2], %aw: f32[1,2]):
      %a: f32[1,2] = aten.add.Tensor(%ax, %aw)
      return (%a),
    graph "no" (%bx: f32[1,2], %bw: f32[1,2]):
      return (%bx), [%x, %w]) as cond
  return (mutate "state" = %y, %y))");
  CHECK(move_constants_into_bodies(graph) == 0);
}

TEST_CASE("the ops of a body belong to the module of the call", "[annotate][control]") {
  Graph graph = with_weights(kCond);
  graph.find_node("cond")->metadata["nn_module_stack"] = "k,block,Block";
  Report report;
  const ObservedGraph observed = prepare(std::move(graph), report);
  CHECK(module_stack(*body_of(observed.graph, "yes").find_node("a")).front().path == "block");
}

TEST_CASE("the bodies of an unknown call stay float, with the reason", "[annotate][control]") {
  Report report;
  const ObservedGraph observed = prepare(with_weights(R"(
graph(%w = param "l.weight": f32[2,2], %x: f32[1,2]):
  %y: f32[1,2] = higher_order.invoke_subgraph(graph "part" (%ax: f32[1,2], %aw: f32[2,2]):
    %a: f32[1,2] = aten.linear.default(%ax, %aw)
    return (%a), "part", %x, %w) as call
  return (%y))"),
                                         report);
  CHECK(observer_nodes(observed.graph).empty());
  CHECK(reasons(report) == "call: bodies of higher_order.invoke_subgraph are not quantized\n");
}

}  // namespace octet::test_control_flow
