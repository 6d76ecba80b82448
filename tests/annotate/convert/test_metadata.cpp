// Quantize and dequantize ops get the module, stack trace and tag of the ops around them: torchao's
// cases of PortNodeMetaForQDQ.
#include "annotate/flow_helpers.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_metadata {
namespace {

using Json = nlohmann::ordered_json;
using test::act_spec;
using test::weight_spec;

// conv -> relu -> linear, each with a tag of its name.
constexpr const char* kText = R"(
graph(%w = param "w": f32[4,3], %x: f32[2,3]):
  %conv: f32[2,4] = aten.linear.default(%x, %w)
  %pool: f32[2,4] = aten.relu.default(%conv)
  %last: f32[2,4] = aten.sigmoid.default(%pool)
  return (%last))";

Graph tagged_graph() {
  Graph graph = parse_graph(kText);
  test::fill_floats(graph);
  for (Node* node : graph.nodes())
    node->metadata = {{"quantization_tag", node->name()},
                      {"stack_trace", "line of " + node->name()},
                      {"other", "x"}};
  return graph;
}

Json rule(const std::string& target, const Json& input, const Json& output) {
  Json result = {{"target", target}, {"inputs", {{"0", input}}}};
  if (!output.is_null()) result["output"] = output;
  return result;
}
Json linear_rule(const Json& input, const Json& output) {
  Json result = rule("aten.linear.default", input, output);
  result["inputs"]["1"] = weight_spec();
  return result;
}

std::string tag_of(const Node* node) {
  const auto found = node->metadata.find("quantization_tag");
  return found == node->metadata.end() ? "none" : found->second;
}

// "op:tag" of each added op in order, with short names: q, dq, choose.
std::string tags(const Graph& graph) {
  std::string result;
  for (const Node* node : graph.nodes()) {
    const std::string& target = node->target();
    if (!target.starts_with("quantized_decomposed.")) continue;
    const char* name = target.find("choose") != std::string::npos        ? "choose"
                       : target.find(".dequantize") != std::string::npos ? "dq"
                                                                         : "q";
    result += (result.empty() ? "" : " ") + std::string(name) + ":" + tag_of(node);
  }
  return result;
}

const Json kRelu = rule("aten.relu.default", act_spec(), act_spec());
const Json kSigmoid = rule("aten.sigmoid.default", act_spec(), act_spec());

}  // namespace

TEST_CASE(
    "metadata: a dequantize has its consumer's, a quantize its producer's; the first and the last "
    "have none",
    "[annotate][metadata]") {
  const Graph graph = test::quantize(
      tagged_graph(), Json::array({linear_rule(act_spec(), act_spec()), kRelu, kSigmoid}));
  CHECK(tags(graph) == "dq:conv q:none dq:conv q:conv dq:pool q:pool dq:last q:last dq:none");
  for (const Node* node : graph.nodes_of("quantized_decomposed.dequantize_per_tensor"))
    if (tag_of(node) != "none")
      CHECK(node->metadata.at("stack_trace") == "line of " + tag_of(node));
}

TEST_CASE("metadata: nothing but module, stack trace and tag is copied", "[annotate][metadata]") {
  const Graph graph = test::quantize(tagged_graph(), Json::array({kRelu}));
  for (const Node* node : graph.nodes())
    if (node->target().starts_with("quantized_decomposed."))
      CHECK_FALSE(node->metadata.contains("other"));
}

TEST_CASE("metadata: an op in between that is not annotated gives none", "[annotate][metadata]") {
  const Graph graph =
      test::quantize(tagged_graph(), Json::array({linear_rule(act_spec(), act_spec()), kSigmoid}));
  CHECK(tags(graph) == "dq:conv q:none dq:conv q:conv dq:none q:none dq:last q:last dq:none");
}

TEST_CASE("metadata: a dynamic chain has its consumer's", "[annotate][metadata]") {
  const Graph graph = test::quantize(
      tagged_graph(), Json::array({linear_rule(test::dynamic_spec(), nullptr), kSigmoid}));
  CHECK(tags(graph) == "dq:conv choose:conv q:conv dq:conv q:none dq:last q:last dq:none");
}

TEST_CASE("metadata: the dequantize of a static output and a dynamic chain after it",
          "[annotate][metadata]") {
  const Graph graph = test::quantize(
      tagged_graph(), Json::array({linear_rule(act_spec(), act_spec()),
                                   rule("aten.relu.default", test::dynamic_spec(), nullptr)}));
  CHECK(tags(graph) == "dq:conv q:none dq:conv q:conv dq:none choose:pool q:pool dq:pool");
}

TEST_CASE("metadata: weights alone", "[annotate][metadata]") {
  Json rule = linear_rule(act_spec(), nullptr);
  rule["inputs"].erase("0");
  CHECK(tags(test::quantize(tagged_graph(), Json::array({rule}))) == "dq:conv");
}

TEST_CASE("metadata: ops without any have nothing to give", "[annotate][metadata]") {
  Graph graph = tagged_graph();
  for (Node* node : graph.nodes()) node->metadata.clear();
  const Graph converted =
      test::quantize(std::move(graph), Json::array({linear_rule(act_spec(), act_spec()), kRelu}));
  CHECK(tags(converted) == "dq:none q:none dq:none q:none dq:none q:none dq:none");
}

TEST_CASE("metadata: ops on a constant before its quantize keep theirs", "[annotate][metadata]") {
  Graph graph = parse_graph(R"(graph(%w = param "w": f32[3,4], %x: f32[2,3]):
    %t: f32[4,3] = aten.transpose.int(%w, 0, 1)
    %u: f32[4,3] = aten.neg.default(%t)
    %y: f32[2,4] = aten.linear.default(%x, %u)
    return (%y))");
  test::fill_floats(graph);
  for (Node* node : graph.nodes()) node->metadata = {{"quantization_tag", node->name()}};
  ConvertOptions options;
  options.fold_quantize = false;
  const Graph converted =
      test::quantize(std::move(graph), Json::array({linear_rule(act_spec(), nullptr)}), options);
  CHECK(tag_of(converted.find_node("t")) == "t");
  CHECK(tag_of(converted.find_node("u")) == "u");
  CHECK(tags(converted) == "q:none dq:y q:none dq:y");
}

}  // namespace octet::test_metadata
