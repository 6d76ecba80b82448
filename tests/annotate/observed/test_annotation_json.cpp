// Annotations as JSON: every kind of spec in full, sharing groups, scales once they are known,
// bodies of control flow.
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/flow_helpers.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_annotation_json {
namespace {

using Json = nlohmann::ordered_json;
using test::act_spec;
using test::dynamic_spec;
using test::random_inputs;
using test::weight_spec;

constexpr const char* kLinear = R"(
  graph(%w = param "w": f32[3,4], %b = param "b": f32[3], %x: f32[2,4]):
    %y: f32[2,3] = aten.linear.default(%x, %w, %b)
    %z: f32[2,3] = aten.sigmoid.default(%y)
    return (%z))";

Graph linear_sigmoid() {
  Graph graph = parse_graph(kLinear);
  test::fill_floats(graph);
  return graph;
}

Json fixed_spec() {
  return {{"kind", "fixed"}, {"dtype", "uint8"}, {"scale", 0.00390625},           {"zero_point", 0},
          {"quant_min", 0},  {"quant_max", 255}, {"qscheme", "per_tensor_affine"}};
}

Json bias_spec() {
  Json spec = {{"kind", "derived"},         {"fn", "bias_int32"},
               {"dtype", "int32"},          {"quant_min", -2147483648LL},
               {"quant_max", 2147483647LL}, {"qscheme", "per_tensor_symmetric"}};
  spec["from"] = Json::array({Json::array({"$arg0", "$self"}), Json::array({"$arg1", "$self"})});
  return spec;
}

Json shared_with(Json edge) { return {{"kind", "shared"}, {"edge", std::move(edge)}}; }

// All four kinds: x and w have specs, the bias follows them, y's edge is shared with the node
// before, the output of the sigmoid is fixed.
Json four_kinds() {
  return Json::array({{{"target", "aten.linear.default"},
                       {"inputs", {{"0", act_spec()}, {"1", weight_spec()}, {"2", bias_spec()}}},
                       {"output", act_spec(0, 127)}},
                      {{"target", "aten.sigmoid.default"},
                       {"inputs", {{"0", {{"kind", "shared"}, {"node", "$arg0"}}}}},
                       {"output", fixed_spec()}}});
}

ObservedGraph prepare(Graph graph, const Json& rules) {
  test::RuleQuantizer quantizer(rules);
  Report report;
  return prepare_pt2e(std::move(graph), quantizer, report);
}

Json dump(const ObservedGraph& observed) { return Json::parse(annotations_to_json(observed)); }

Json annotate_only(Graph& graph, const Json& rules) {
  test::RuleQuantizer quantizer(rules);
  Annotations annotations;
  Report report;
  quantizer.annotate(graph, annotations, report);
  return Json::parse(annotations_to_json(graph, annotations));
}

// Without the groups' scales, which depend on data.
std::vector<std::vector<std::string>> members_of(const Json& json) {
  std::vector<std::vector<std::string>> members;
  for (const Json& group : json.at("groups")) members.push_back(group.at("members"));
  return members;
}

TEST_CASE("a spec with an observer is dumped with all that it says", "[annotate][json]") {
  const Json json = dump(prepare(linear_sigmoid(), four_kinds()));
  CHECK(json.at("format") == 1);
  const Json& node = json.at("nodes").at(0);
  CHECK(node.at("name") == "y");
  CHECK(node.at("target") == "aten.linear.default");
  CHECK(
      node.at("inputs").at(0).dump() ==
      R"({"tensor":"%x -> %y","spec":{"kind":"quantization","text":"int8 -128..127 per_tensor_affine min_max","dtype":"int8",)"
      R"("quant_min":-128,"quant_max":127,"qscheme":"per_tensor_affine","ch_axis":null,"is_dynamic":false,"observer":{"name":"min_max",)"
      R"("eps":null,"bins":2048,"averaging_constant":0.01,"reduce_range":false}},"group":0})");
}

TEST_CASE("derived, shared and fixed specs are dumped with what they refer to",
          "[annotate][json]") {
  const Json json = dump(prepare(linear_sigmoid(), four_kinds()));
  const Json& linear = json.at("nodes").at(0);
  CHECK(
      linear.at("inputs").at(2).at("spec").dump() ==
      R"({"kind":"derived","text":"derived (product_of_scales) from %x -> %y, %w -> %y","derived_from":[{"edge":"%x -> %y"},{"edge":"%w -> %y"}],)"
      R"("derive":"product_of_scales","dtype":"int32","quant_min":-2147483648,"quant_max":2147483647,"qscheme":"per_tensor_symmetric",)"
      R"("ch_axis":null,"is_dynamic":false})");
  const Json& sigmoid = json.at("nodes").at(1);
  CHECK(sigmoid.at("inputs").at(0).at("spec").dump() ==
        R"({"kind":"shared","text":"same as %y","same_as":{"node":"%y"}})");
  CHECK(
      sigmoid.at("output").dump() ==
      R"({"tensor":"%z","spec":{"kind":"fixed","text":"fixed 0.00390625, 0 uint8 0..255","fixed":{"scale":0.00390625,"zero_point":0},)"
      R"("dtype":"uint8","quant_min":0,"quant_max":255,"qscheme":"per_tensor_affine","is_dynamic":false},"group":4})");
}

TEST_CASE("groups list the tensors that share an observer, and the spec they end at",
          "[annotate][json]") {
  const Json json = dump(prepare(linear_sigmoid(), four_kinds()));
  CHECK(members_of(json) ==
        std::vector<std::vector<std::string>>{
            {"%x -> %y"}, {"%w -> %y"}, {"%b -> %y"}, {"%y", "%y -> %z"}, {"%z"}});
  const Json& shared = json.at("groups").at(3);
  CHECK(shared.at("spec").at("kind") == "quantization");
  CHECK(shared.at("quant_min") == 0);
  CHECK(shared.at("quant_max") == 127);
}

TEST_CASE("scales are null before calibration and the converted ones after it",
          "[annotate][json]") {
  ObservedGraph observed = prepare(linear_sigmoid(), four_kinds());
  const Json before = dump(observed);
  CHECK(before.at("groups").at(0).at("has_data") == false);
  CHECK(before.at("groups").at(0).at("qparams").is_null());
  CHECK(before.at("groups").at(4).at("qparams").dump() ==
        R"({"scale":[0.00390625],"zero_point":[0],"axis":null,"block_size":[]})");
  calibrate(observed, {random_inputs(observed.graph)});
  const Json after = dump(observed);
  std::vector<double> dumped;
  for (const int group : {0, 3, 4})
    dumped.push_back(after.at("groups").at(group).at("qparams").at("scale").at(0));
  const float bias = after.at("groups").at(2).at("qparams").at("scale").at(0);
  CHECK(bias == after.at("groups").at(0).at("qparams").at("scale").at(0).get<float>() *
                    after.at("groups").at(1).at("qparams").at("scale").at(0).get<float>());
  Report report;
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  std::vector<double> stored;
  for (const Node* node : converted.nodes())
    if (node->target() == "quantized_decomposed.quantize_per_tensor.default")
      stored.push_back(node->float_or("scale", 0));
  CHECK(stored == dumped);
}

TEST_CASE("annotations alone are dumped with their groups and no scales", "[annotate][json]") {
  Graph graph = linear_sigmoid();
  const Json alone = annotate_only(graph, four_kinds());
  const Json observed = dump(prepare(linear_sigmoid(), four_kinds()));
  CHECK(alone.at("nodes") == observed.at("nodes"));
  CHECK(members_of(alone) == members_of(observed));
  CHECK(alone.at("groups").at(3).at("quant_max") == 127);
  CHECK(alone.at("groups").at(4).at("qparams").is_null());
}

TEST_CASE("a scale per channel is dumped with its axis and a scale for each channel",
          "[annotate][json]") {
  Json weight = weight_spec();
  weight["qscheme"] = "per_channel_symmetric";
  weight["observer"] = "PerChannelMinMaxObserver";
  weight["ch_axis"] = 0;
  ObservedGraph observed =
      prepare(linear_sigmoid(),
              Json::array({{{"target", "aten.linear.default"}, {"inputs", {{"1", weight}}}}}));
  observe_constants(observed);
  const Json json = dump(observed);
  CHECK(json.at("nodes").at(0).at("inputs").at(0).at("spec").at("ch_axis") == 0);
  CHECK(json.at("groups").at(0).at("qparams").at("axis") == 0);
  CHECK(json.at("groups").at(0).at("qparams").at("scale").size() == 3);
}

TEST_CASE("affine observers are dumped with granularity, mapping and dtypes", "[annotate][json]") {
  Json weight = weight_spec();
  weight.erase("qscheme");
  weight["observer"] = "AffineQuantizedMinMaxObserver";
  weight["observer_args"] = {{"mapping_type", "SYMMETRIC"},
                             {"granularity", {{"kind", "per_group"}, {"group_size", 2}}},
                             {"zero_point_dtype", "int32"}};
  ObservedGraph observed =
      prepare(linear_sigmoid(),
              Json::array({{{"target", "aten.linear.default"}, {"inputs", {{"1", weight}}}}}));
  observe_constants(observed);
  const Json json = dump(observed);
  CHECK(
      json.at("nodes").at(0).at("inputs").at(0).at("spec").at("observer").dump() ==
      R"({"name":"affine_min_max","eps":null,"bins":2048,"averaging_constant":0.01,"reduce_range":false,"granularity":"per_group","group_size":2,)"
      R"("mapping_type":"symmetric","scale_dtype":null,"zero_point_dtype":"int32","has_16_bit_scales":false,"preserve_zero":true,"zero_point_domain":"int"})");
  CHECK(json.at("groups").at(0).at("qparams").at("scale").size() == 6);
  CHECK(json.at("groups").at(0).at("qparams").at("block_size").dump() == "[1,2]");
}

TEST_CASE("a dynamic spec has data from the start and never a scale", "[annotate][json]") {
  const ObservedGraph observed = prepare(
      linear_sigmoid(),
      Json::array({{{"target", "aten.linear.default"}, {"inputs", {{"0", dynamic_spec()}}}}}));
  const Json json = dump(observed);
  CHECK(json.at("nodes").at(0).at("inputs").at(0).at("spec").at("is_dynamic") == true);
  CHECK(json.at("groups").at(0).at("has_data") == true);
  CHECK(json.at("groups").at(0).at("qparams").is_null());
}

TEST_CASE("a tensor that cannot be observed has a spec and no group", "[annotate][json]") {
  const ObservedGraph observed = prepare(
      parse_graph(R"(
    graph(%i: i64[2], %x: f32[2]):
      %y: f32[2] = aten.add.Tensor(%x, %i)
      return (%y))"),
      Json::array(
          {{{"target", "aten.add.Tensor"}, {"inputs", {{"0", act_spec()}, {"1", act_spec()}}}}}));
  const Json json = dump(observed);
  CHECK(json.at("nodes").at(0).at("inputs").at(1).at("tensor") == "%i -> %y");
  CHECK(json.at("nodes").at(0).at("inputs").at(1).at("group").is_null());
  CHECK(members_of(json) == std::vector<std::vector<std::string>>{{"%x -> %y"}});
}

TEST_CASE("edges that share with one another end at the spec of the one that has its own",
          "[annotate][json]") {
  const Json rules = Json::array(
      {{{"target", "aten.cat.default"},
        {"inputs", {{"0.0", act_spec()}, {"0.1", shared_with(Json::array({"%x", "$self"}))}}},
        {"output", shared_with(Json::array({"%x", "$self"}))}}});
  const Json json = dump(prepare(parse_graph(R"(
    graph(%x: f32[2], %y: f32[2]):
      %z: f32[4] = aten.cat.default([%x, %y])
      return (%z))"),
                                 rules));
  CHECK(members_of(json) == std::vector<std::vector<std::string>>{{"%x -> %z", "%y -> %z", "%z"}});
  CHECK(json.at("nodes").at(0).at("output").at("spec").at("same_as").dump() ==
        R"({"edge":"%x -> %z"})");
  CHECK(json.at("groups").at(0).at("spec").at("dtype") == "int8");
}

TEST_CASE("nodes in bodies of control flow are named with the body's path", "[annotate][json]") {
  Graph graph = parse_graph(R"(
    graph(%w = param "w": f32[2,2], %p: b8[], %x: f32[1,2]):
      %y: f32[1,2] = higher_order.cond(%p,
        graph "yes" (%ax: f32[1,2], %aw: f32[2,2]):
          %a: f32[1,2] = aten.linear.default(%ax, %aw)
          return (%a),
        graph "no" (%bx: f32[1,2], %bw: f32[2,2]):
          %b: f32[1,2] = aten.relu.default(%bx)
          return (%b), [%x, %w]) as cond
      return (%y))");
  const Json rules =
      Json::array({{{"target", "aten.linear.default"},
                    {"inputs", {{"0", act_spec()}, {"1", weight_spec()}}},
                    {"output", {{"kind", "shared"}, {"edge", {"$arg0", "$self"}}}}}});
  const Json json = dump(prepare(std::move(graph), rules));
  REQUIRE(json.at("nodes").size() == 1);
  CHECK(json.at("nodes").at(0).at("name") == "yes.a");
  CHECK(json.at("nodes").at(0).at("output").at("spec").at("text") == "same as %yes.ax -> %yes.a");
  CHECK(members_of(json) == std::vector<std::vector<std::string>>{{"%yes.ax -> %yes.a", "%yes.a"},
                                                                  {"%yes.aw -> %yes.a"}});
}

}  // namespace
}  // namespace octet::test_annotation_json
