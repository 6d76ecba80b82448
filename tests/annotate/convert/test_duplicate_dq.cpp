// A dequantize per annotated consumer: torchao's cases of DuplicateDQPass.
#include <set>

#include "annotate/flow_helpers.h"
#include "core/passes/verify.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_duplicate_dq {
namespace {

using Json = nlohmann::ordered_json;
using test::act_spec;
using test::count_of;

constexpr const char* kDequantize = "quantized_decomposed.dequantize_per_tensor.default";
constexpr const char* kQuantize = "quantized_decomposed.quantize_per_tensor.default";

Json rule(const std::string& target, const Json& input, const Json& output = nullptr) {
  Json result = {{"target", target}, {"inputs", {{"0", input}}}};
  if (!output.is_null()) result["output"] = output;
  return result;
}

// Every dequantize has one consumer that is not a size.
bool each_has_one_user(const Graph& graph) {
  for (const Node* node : graph.nodes_of(kDequantize))
    if (node->output()->users().size() + (node->output()->is_output() ? 1 : 0) != 1) return false;
  return true;
}

}  // namespace

TEST_CASE("duplicate dequantize: a chain of one consumer each needs no copy",
          "[annotate][duplicate]") {
  const Graph graph = test::quantize(parse_graph(R"(graph(%x: f32[2,4]):
    %a: f32[2,4] = aten.relu.default(%x) %b: f32[2,4] = aten.sigmoid.default(%a) return (%b))"),
                                     Json::array({rule("aten.relu.default", act_spec(), act_spec()),
                                                  rule("aten.sigmoid.default", act_spec())}));
  CHECK(count_of(graph, kQuantize) == 2);
  CHECK(count_of(graph, kDequantize) == 2);
}

TEST_CASE("duplicate dequantize: two annotated consumers of one tensor get a dequantize each",
          "[annotate][duplicate]") {
  const Graph graph = test::quantize(parse_graph(R"(graph(%x: f32[2,4]):
    %a: f32[2,4] = aten.relu.default(%x) %b: f32[2,4] = aten.sigmoid.default(%a) %c: f32[2,4] = aten.tanh.default(%a) return (%b, %c))"),
                                     Json::array({rule("aten.relu.default", act_spec(), act_spec()),
                                                  rule("aten.sigmoid.default", act_spec()),
                                                  rule("aten.tanh.default", act_spec())}));
  CHECK(count_of(graph, kQuantize) == 2);
  CHECK(count_of(graph, kDequantize) == 3);
  CHECK(each_has_one_user(graph));
  CHECK(graph.find_node("b")->find_input("self") != graph.find_node("c")->find_input("self"));
}

TEST_CASE("duplicate dequantize: consumers without annotation still share one",
          "[annotate][duplicate]") {
  const Graph graph = test::quantize(parse_graph(R"(graph(%x: f32[2,4]):
    %a: f32[2,4] = aten.relu.default(%x) %b: f32[2,4] = aten.sigmoid.default(%a) %c: f32[2,4] = aten.tanh.default(%a)
    %d: f32[2,4] = aten.neg.default(%a) return (%b, %c, %d))"),
                                     Json::array({rule("aten.relu.default", act_spec(), act_spec()),
                                                  rule("aten.sigmoid.default", act_spec())}));
  CHECK(count_of(graph, kDequantize) == 3);
  CHECK(graph.find_node("c")->find_input("self") == graph.find_node("d")->find_input("self"));
  CHECK(graph.find_node("b")->find_input("self") != graph.find_node("c")->find_input("self"));
}

TEST_CASE("duplicate dequantize: consumers with separate specs have separate quantize ops",
          "[annotate][duplicate]") {
  const Graph graph = test::quantize(parse_graph(R"(graph(%x: f32[2,4]):
    %a: f32[2,4] = aten.relu.default(%x) %b: f32[2,4] = aten.sigmoid.default(%a) %c: f32[2,4] = aten.tanh.default(%a) return (%b, %c))"),
                                     Json::array({rule("aten.sigmoid.default", act_spec()),
                                                  rule("aten.tanh.default", act_spec(-64, 63))}));
  CHECK(count_of(graph, kQuantize) == 2);
  CHECK(count_of(graph, kDequantize) == 2);
  CHECK(each_has_one_user(graph));
}

TEST_CASE("duplicate dequantize: a consumer that takes the tensor twice gets one copy",
          "[annotate][duplicate]") {
  const Graph graph = test::quantize(
      parse_graph(R"(graph(%x: f32[2,4]):
    %a: f32[2,4] = aten.mul.Tensor(%x, %x) %b: f32[2,4] = aten.sigmoid.default(%x) return (%a, %b))"),
      Json::array(
          {{{"target", "aten.mul.Tensor"}, {"inputs", {{"0", act_spec()}, {"1", act_spec()}}}},
           rule("aten.sigmoid.default", act_spec())}));
  const Node* mul = graph.find_node("a");
  CHECK(mul->find_input("self") == mul->find_input("other"));
  CHECK(mul->find_input("self") != graph.find_node("b")->find_input("self"));
}

TEST_CASE("duplicate dequantize: sizes do not count as consumers", "[annotate][duplicate]") {
  const Graph graph =
      test::quantize(parse_graph(R"(graph(%x: f32[2,4]):
    %a: f32[2,4] = aten.sigmoid.default(%x) %n: int = aten.sym_size.int(%a, 0) %b: f32[2,4] = aten.tanh.default(%a)
    return (%b, %n))"),
                     Json::array({rule("aten.sigmoid.default", act_spec(), act_spec()),
                                  rule("aten.tanh.default", act_spec())}));
  CHECK(count_of(graph, kDequantize) == 2);
}

TEST_CASE("duplicate dequantize: a dynamic chain stays one chain", "[annotate][duplicate]") {
  Json symmetric = test::dynamic_spec();
  symmetric["qscheme"] = "per_tensor_symmetric";
  const auto run = [](const Json& spec) {
    return test::quantize(
        parse_graph(R"(graph(%x: f32[2,4]):
      %a: f32[2,4] = aten.sigmoid.default(%x) %b: f32[2,4] = aten.tanh.default(%x) return (%a, %b))"),
        Json::array({rule("aten.sigmoid.default", spec), rule("aten.tanh.default", spec)}));
  };
  CHECK(count_of(run(test::dynamic_spec()), "quantized_decomposed.dequantize_per_tensor.tensor") ==
        1);
  CHECK(count_of(run(symmetric), "quantized_decomposed.dequantize_per_tensor.tensor") == 2);
}

}  // namespace octet::test_duplicate_dq
