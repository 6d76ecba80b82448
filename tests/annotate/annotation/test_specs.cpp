// Each kind of spec from prepare to the q/dq graph: without a spec a value stays float, shared
// specs give one scale, derived specs follow their sources.
#include <functional>

#include <fmt/format.h>

#include "annotate/flow_helpers.h"
#include "annotate/prepare/prepare.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_specs {
namespace {

using Json = nlohmann::ordered_json;
using test::act_spec;
using test::count_of;
using test::quantize;
using test::weight_spec;

Graph linear_relu() {
  Graph graph = parse_graph(R"(
    graph(%w = param "w": f32[3,4], %b = param "b": f32[3], %x: f32[2,4]):
      %y: f32[2,3] = aten.linear.default(%x, %w, %b)
      %z: f32[2,3] = aten.relu.default(%y)
      return (%z))");
  test::fill_floats(graph);
  return graph;
}

// relu(relu(relu(x))).
Graph relus() {
  return parse_graph(R"(
    graph(%x: f32[2,3]):
      %a: f32[2,3] = aten.relu.default(%x)
      %b: f32[2,3] = aten.sigmoid.default(%a)
      %c: f32[2,3] = aten.tanh.default(%b)
      return (%c))");
}

Json bias_spec(bool per_channel) {
  Json spec = {{"kind", "derived"},
               {"fn", "bias_int32"},
               {"dtype", "int32"},
               {"quant_min", -2147483648LL},
               {"quant_max", 2147483647LL},
               {"qscheme", per_channel ? "per_channel_symmetric" : "per_tensor_symmetric"}};
  spec["from"] = Json::array({Json::array({"$arg0", "$self"}), Json::array({"$arg1", "$self"})});
  if (per_channel) spec["ch_axis"] = 0;
  return spec;
}

Json rule(const std::string& target, Json inputs, Json output = nullptr) {
  return {{"target", target}, {"inputs", std::move(inputs)}, {"output", std::move(output)}};
}

Json linear_rule(Json inputs, Json output = nullptr) {
  return Json::array({rule("aten.linear.default", std::move(inputs), std::move(output))});
}

int groups_of(Graph graph, const Json& rules) {
  test::RuleQuantizer quantizer(rules);
  Report report;
  const ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  return static_cast<int>(observed.observers.size());
}

std::vector<const Node*> nodes_of(const Graph& graph, std::string_view target) {
  std::vector<const Node*> found;
  for (const Node* node : graph.nodes())
    if (node->target() == target) found.push_back(node);
  return found;
}

constexpr std::string_view kQuantize = "quantized_decomposed.quantize_per_tensor.default";
constexpr std::string_view kDequantize = "quantized_decomposed.dequantize_per_tensor.default";

TEST_CASE("specs: any of activation, weight, bias and output may be absent", "[annotate][spec]") {
  // A quantized constant is folded, so it has only a dequantize.
  const auto counts = [](const Json& rules) {
    const Graph graph = quantize(linear_relu(), rules);
    return std::pair(count_of(graph, kQuantize),
                     count_of(graph, "quantized_decomposed.dequantize*"));
  };
  CHECK(counts(linear_rule(Json::object())) == std::pair(0, 0));
  CHECK(counts(linear_rule({{"0", act_spec()}})) == std::pair(1, 1));
  CHECK(counts(linear_rule({{"1", weight_spec()}})) == std::pair(0, 1));
  CHECK(counts(linear_rule({{"2", weight_spec()}})) == std::pair(0, 1));
  CHECK(counts(linear_rule(Json::object(), act_spec())) == std::pair(1, 1));
  CHECK(counts(linear_rule({{"0", act_spec()}, {"1", weight_spec()}, {"2", bias_spec(false)}},
                           act_spec())) == std::pair(2, 4));
}

TEST_CASE("specs: an int32 bias has the product of the scales of input and weight",
          "[annotate][spec][derived]") {
  const Graph graph =
      quantize(linear_relu(),
               linear_rule({{"0", act_spec()}, {"1", weight_spec()}, {"2", bias_spec(false)}}));
  const Node& linear = *nodes_of(graph, "aten.linear.default").front();
  const auto scale_of = [&](const char* input) {
    return static_cast<float>(linear.find_input(input)->producer()->float_or("scale", 0));
  };
  CHECK(scale_of("bias") == scale_of("input") * scale_of("weight"));
  CHECK(linear.find_input("bias")->producer()->int_or("zero_point", 7) == 0);
  CHECK(graph.find_constant(linear.find_input("bias")->producer()->find_input("input"))->dtype() ==
        DType::kInt32);
}

TEST_CASE("specs: with a per-channel weight the derived bias is per channel",
          "[annotate][spec][derived]") {
  const Graph graph = quantize(linear_relu(), linear_rule({{"0", act_spec()},
                                                           {"1", test::per_channel_weight_spec()},
                                                           {"2", bias_spec(true)}}));
  const Node& linear = *nodes_of(graph, "aten.linear.default").front();
  const float input =
      static_cast<float>(linear.find_input("input")->producer()->float_or("scale", 0));
  const Tensor& weight =
      *graph.find_constant(linear.find_input("weight")->producer()->find_input("scales"));
  const Tensor& bias =
      *graph.find_constant(linear.find_input("bias")->producer()->find_input("scales"));
  REQUIRE(bias.numel() == 3);
  for (int64_t i = 0; i < 3; ++i) CHECK(bias.data<float>()[i] == input * weight.data<float>()[i]);
}

TEST_CASE("specs: a chain of shared specs ends at one observer, in any notation",
          "[annotate][spec][shared]") {
  const Json edge = {{"kind", "shared"}, {"edge", Json::array({"$arg0", "$self"})}};
  const Json producer = {{"kind", "shared"}, {"node", "$arg0"}};
  const Json chain = Json::array({rule("aten.relu.default", {{"0", act_spec()}}, edge),
                                  rule("aten.sigmoid.default", {{"0", producer}}, edge),
                                  rule("aten.tanh.default", {{"0", producer}}, edge)});
  CHECK(groups_of(relus(), chain) == 1);
  const Graph graph = quantize(relus(), chain);
  const std::vector<const Node*> quantizes = nodes_of(graph, kQuantize);
  REQUIRE(quantizes.size() == 4);
  for (const Node* node : quantizes)
    CHECK(node->float_or("scale", 0) == quantizes.front()->float_or("scale", 1));
}

TEST_CASE(
    "specs: without implicit sharing each edge has a separate observer, shared specs still share",
    "[annotate][spec][shared]") {
  const auto rules = [](bool implicit) {
    Json both = Json::array({rule("aten.relu.default", Json::object(), act_spec()),
                             rule("aten.sigmoid.default", {{"0", act_spec()}})});
    for (Json& one : both) one["allow_implicit_sharing"] = implicit;
    return both;
  };
  CHECK(groups_of(relus(), rules(true)) == 1);
  CHECK(groups_of(relus(), rules(false)) == 2);
  Json told = rules(false);
  told[1]["inputs"]["0"] = {{"kind", "shared"}, {"node", "$arg0"}};
  CHECK(groups_of(relus(), told) == 1);
}

TEST_CASE("specs: fixed scales are used unchanged and need no data", "[annotate][spec][fixed]") {
  const Json fixed = {{"kind", "fixed"},
                      {"dtype", "uint8"},
                      {"scale", 1.0 / 256},
                      {"zero_point", 0},
                      {"quant_min", 0},
                      {"quant_max", 255},
                      {"qscheme", "per_tensor_affine"}};
  const Json rules = Json::array({rule("aten.sigmoid.default", Json::object(), fixed),
                                  rule("aten.tanh.default", {{"0", fixed}})});
  CHECK(groups_of(relus(), rules) == 1);
  const Graph graph = quantize(relus(), rules);
  REQUIRE(count_of(graph, kQuantize) == 1);
  CHECK(nodes_of(graph, kQuantize).front()->float_or("scale", 0) == 1.0 / 256);
}

TEST_CASE("specs: each integer dtype reaches the q/dq graph with its range",
          "[annotate][spec][dtype]") {
  struct Row {
    const char* dtype;
    int64_t min, max;
  };
  for (const Row& row : {Row{"int8", -128, 127}, Row{"uint8", 0, 255}, Row{"int16", -32768, 32767},
                         Row{"uint16", 0, 65535}, Row{"int32", -2147483648LL, 2147483647LL}}) {
    INFO(row.dtype);
    Json spec = act_spec();
    spec["dtype"] = row.dtype;
    spec["quant_min"] = row.min;
    spec["quant_max"] = row.max;
    const Graph graph = quantize(relus(), Json::array({rule("aten.relu.default", {{"0", spec}})}));
    for (std::string_view target : {kQuantize, kDequantize}) {
      REQUIRE(count_of(graph, target) == 1);
      const Node& node = *nodes_of(graph, target).front();
      CHECK(*node.find_argument("dtype")->find<DType>() == *find_dtype(row.dtype));
      CHECK(node.int_or("quant_min", 1) == row.min);
      CHECK(node.int_or("quant_max", 1) == row.max);
    }
  }
}

TEST_CASE("specs: a q/dq graph can be quantized further", "[annotate][spec][reentrant]") {
  Graph graph = parse_graph(R"(
    graph(%w = param "w": f32[4,4], %v = param "v": f32[4,4], %x: f32[2,4]):
      %a: f32[2,4] = aten.linear.default(%x, %w)
      %b: f32[2,4] = aten.linear.default(%a, %v)
      return (%b))");
  test::fill_floats(graph);
  const auto nth = [](int number) {
    Json rules = linear_rule({{"0", act_spec()}, {"1", weight_spec()}});
    rules[0]["nth"] = number;
    return rules;
  };
  const Graph twice = quantize(quantize(std::move(graph), nth(0)), nth(1));
  CHECK(test::targets(twice) ==
        "dequantize_per_tensor.default dequantize_per_tensor.default "  // of both weights
        "quantize_per_tensor.default dequantize_per_tensor.default linear.default "
        "quantize_per_tensor.default dequantize_per_tensor.default linear.default");
  CHECK(twice.constants.size() == 2);
  for (const auto& [fqn, constant] : twice.constants)
    CHECK(constant.tensor.dtype() == DType::kInt8);
}

// A quantizer with the given callback.
class CallbackQuantizer : public test::RuleQuantizer {
 public:
  using Callback = std::function<void(ObserverMap&)>;
  CallbackQuantizer(Json rules, Callback callback)
      : RuleQuantizer(std::move(rules)), callback_(std::move(callback)) {}
  void prepare_obs_or_fq_callback(const Graph&, ObserverMap& observers) override {
    callback_(observers);
  }

 private:
  Callback callback_;
};

// The groups of the observer nodes of relus(), each annotated at its input with a different
// range.
std::vector<int> groups_after(CallbackQuantizer::Callback callback) {
  Json rules = Json::array();
  int width = 10;
  for (const char* target : {"aten.relu.default", "aten.sigmoid.default", "aten.tanh.default"})
    rules.push_back({{"target", target}, {"inputs", {{"0", act_spec(-width++, 10)}}}});
  CallbackQuantizer quantizer(std::move(rules), std::move(callback));
  Report report;
  const ObservedGraph observed = prepare_pt2e(relus(), quantizer, report);
  std::vector<int> groups;
  for (const Node* point : observer_nodes(observed.graph)) groups.push_back(group_of(*point));
  for (const int group : groups) CHECK(group < static_cast<int>(observed.observers.size()));
  return groups;
}

}  // namespace
TEST_CASE("specs: a quantizer's callback lets places share an observer, or leaves them unobserved",
          "[annotate][specs]") {
  CHECK(groups_after([](ObserverMap&) {}) == std::vector<int>{0, 1, 2});
  CHECK(groups_after([](ObserverMap& map) { map[2].second = map[0].second; }) ==
        std::vector<int>{0, 1, 0});
  CHECK(groups_after([](ObserverMap& map) { map[1].second.reset(); }) == std::vector<int>{0, 1});
  CHECK(groups_after([](ObserverMap& map) {
          map[0].second = make_observer(map[0].second->args());
        }) == std::vector<int>{0, 1, 2});
}

TEST_CASE("specs: a callback cannot observe where there is no spec", "[annotate][specs]") {
  const auto add = [](ObserverMap& map) {
    const Edge edge = std::get<Edge>(map[0].first);
    map.emplace_back(EdgeOrNode(edge.user->output()), map[0].second);
  };
  CHECK_THROWS_WITH(groups_after(add),
                    "prepare: %a: quantizer \"rules\" set an observer in a place without a spec; "
                    "annotate that edge or value");
}

}  // namespace octet::test_specs
