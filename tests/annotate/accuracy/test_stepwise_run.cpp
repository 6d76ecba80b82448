// Stepwise runs give what the whole program gives, batch after batch: with states that the program
// writes to, and with writes to values that an earlier step computed.
#include "annotate/accuracy/stepwise_run.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_stepwise_run {
namespace {

using Batches = std::vector<std::vector<c10::IValue>>;

// The second linear reads a sum over all batches.
const char* const kCache =
    R"(graph(%w = param "w": f32[3,3], %s = buffer "s": f32[2,3], %x: f32[2,3]):
    %a: f32[2,3] = aten.linear.default(%x, %w)
    %n: f32[2,3] = aten.add_.Tensor(%s, %a)
    %b: f32[2,3] = aten.linear.default(%n, %w)
    %y: f32[2,3] = aten.add.Tensor(%b, %n)
    return (%y))";

Graph with_constants(const char* text) {
  Graph graph = parse_graph(text);
  float next = 0.25F;
  for (auto& [fqn, constant] : graph.constants)
    constant.tensor = from_aten(at::full({fqn == "w" ? 3 : 2, 3}, next += 0.25F));
  return graph;
}

Batches three_batches() {
  Batches batches;
  for (const float value : {1.F, 2.F, 5.F}) batches.push_back({at::full({2, 3}, value)});
  return batches;
}

void check_rest(StepwiseRun& run, Interpreter& whole, const Batches& batches) {
  for (size_t i = 0; i < batches.size(); ++i) {
    CAPTURE(i);
    CHECK(at::equal(run.run_rest(i).at(0).toTensor(), whole.run(batches[i]).at(0).toTensor()));
  }
}

std::string refusal(const char* text) { return can_run_stepwise(parse_graph(text)).reason(); }

}  // namespace

TEST_CASE("a stepwise run keeps states from batch to batch", "[annotate][stepwise]") {
  const Graph graph = with_constants(kCache);
  REQUIRE(can_run_stepwise(graph));
  const Batches batches = three_batches();
  for (const char* stop : {"a", "b", "y"}) {
    CAPTURE(stop);
    StepwiseRun run(std::move(*clone(graph)), batches);
    run.run_to(*run.graph().find_node(stop), false);
    for (int repeat = 0; repeat < 2; ++repeat) {
      Interpreter whole(graph);
      check_rest(run, whole, batches);
    }
  }
  CHECK(at::equal(to_aten(graph.constants.at("s").tensor), at::full({2, 3}, 0.5F)));
}

TEST_CASE("the rest of a stepwise run leaves earlier results alone", "[annotate][stepwise]") {
  const Graph graph = with_constants(
      R"(graph(%w = param "w": f32[3,3], %x: f32[2,3]):
    %a: f32[2,3] = aten.linear.default(%x, %w)
    %v: f32[3,2] = aten.t.default(%a)
    %r: f32[2,3] = aten.relu.default(%x)
    %s: f32[2,3] = aten.add_.Tensor(%a, %r)
    %u: f32[2,3] = aten.t.default(%v)
    %y: f32[2,3] = aten.add.Tensor(%s, %u)
    return (%y))");
  const Batches batches = three_batches();
  StepwiseRun run(std::move(*clone(graph)), batches);
  run.run_to(*run.graph().find_node("r"), true);
  for (int repeat = 0; repeat < 2; ++repeat) {
    Interpreter whole(graph);
    check_rest(run, whole, batches);
  }
}

TEST_CASE("a stepwise run keeps what is the same for all batches once", "[annotate][stepwise]") {
  Graph graph = parse_graph(
      R"(graph(%w = param "w": i8[3,3], %x: f32[2,3]):
    %t: f32[3,3] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.5, 0, -128, 127, i8)
    %a: f32[2,3] = aten.linear.default(%x, %t)
    %b: f32[2,3] = aten.linear.default(%a, %t)
    return (%b))");
  graph.constants.at("w").tensor = from_aten(at::full({3, 3}, 4, at::kChar));
  const Batches batches = three_batches();
  StepwiseRun run(std::move(*clone(graph)), batches);
  run.run_to(*run.graph().find_node("a"), true);
  const Value& t = *run.graph().find_node("t")->output();
  CHECK(run.value(2, t).toTensor().is_alias_of(run.value(0, t).toTensor()));
  Interpreter whole(graph);
  check_rest(run, whole, batches);
}

TEST_CASE("states that a step cannot keep are refused", "[annotate][stepwise][error]") {
  CHECK(refusal(R"(graph(%w = param "w": f32[3,3], %s = buffer "s": f32[2,3], %x: f32[2,3]):
    %a: f32[2,3] = aten.add.Tensor(%s, %x)
    %b: f32[2,3] = aten.linear.default(%a, %w)
    %n: f32[2,3] = aten.add_.Tensor(%s, %b)
    return (%n))") == "the program uses its state %s before or at %b and writes to it after");
  CHECK(refusal(R"(graph(%w = param "w": f32[3,3], %s = buffer "s": f32[2,3], %x: f32[2,3]):
    %b: f32[2,3] = aten.linear.default(%s, %w)
    %n: f32[2,3] = aten.add_.Tensor(%s, %b)
    return (%n))") == "the program uses its state %s before or at %b and writes to it after");
  CHECK(refusal(R"(graph(%w = param "w": f32[3,3], %s = buffer "s": f32[2,3], %x: f32[2,3]):
    %c: f32[2,3] = aten.copy_.default(%s, %x)
    %b: f32[2,3] = aten.linear.default(%c, %w)
    %n: f32[2,3] = aten.add_.Tensor(%s, %b)
    return (%n))")
            .empty());
  CHECK(refusal(R"(graph(%x: f32[2,3]):
    %n: f32[2,3] = aten.relu_.default(%x)
    return (%n))") == "the program writes to its input %x");
}

}  // namespace octet::test_stepwise_run
