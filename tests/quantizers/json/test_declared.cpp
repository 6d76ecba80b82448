// Backends declared in JSON: what their rows annotate, and errors for wrong files.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"

namespace octet::test_declared {
namespace {

using test::annotate_text;
using test::declared_fault;

constexpr const char* kLinearRelu =
    R"j(graph(%x: f32[2,4], %w = param "fc.weight": f32[3,4], %b = param "fc.bias": f32[3]):
  %y: f32[2,3] = aten.linear.default(%x, %w, %b)
  %z: f32[2,3] = aten.relu.default(%y) return (%z))j";

const std::string kSpecs = R"j("specs": {
  "act": {"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": "histogram"},
  "weight": {"dtype": "int8", "qscheme": "per_channel_symmetric", "ch_axis": 0, "quant_min": -127, "quant_max": 127, "observer": "per_channel_min_max"},
  "bias": {"derived_from": ["x", "w"], "derive": "product_of_scales", "dtype": "int32", "qscheme": "per_channel_symmetric", "ch_axis": 0},
  "prob": {"fixed": {"scale": 0.00390625, "zero_point": 0}, "dtype": "uint8", "quant_min": 0, "quant_max": 255}}, )j";

std::string file_of(const std::string& patterns, const std::string& rest = "") {
  return R"j({"name": "npu", )j" + kSpecs + "\"patterns\": [" + patterns + "]" + rest + "}";
}

std::string annotations_of(const std::string& json, const std::string& graph,
                           const test::ModuleStacks& stacks = {}) {
  return annotate_text(graph, *parse_quantizer(json, "npu.json"), stacks).text;
}

std::string row_annotations(const std::string& row, const std::string& graph) {
  return annotations_of(file_of(row), graph);
}

// The fault of a file with one row, and of one with a single spec.
std::string row_message(const std::string& row) { return declared_fault(file_of(row)); }
std::string spec_message(const std::string& spec) {
  return declared_fault(R"j({"specs": {"s": )j" + spec +
                        R"j(}, "patterns": [{"pattern": "relu(x)", "inputs": {"x": "s"}}]})j");
}

const std::string kLinearRow =
    R"j({"name": "linear", "pattern": "linear(x, w, b?)", "inputs": {"x": "act", "w": "weight", "b": "bias"}, "output": "act"})j";

}  // namespace

TEST_CASE("a declared row annotates the border of its pattern, a derived bias included",
          "[quantizers][json][declared]") {
  CHECK(
      row_annotations(
          R"j({"name": "linear_relu", "pattern": "relu(linear(x, w, b?))", "inputs": {"x": "act", "w": "weight", "b": "bias"},
                            "output": "act"})j",
          kLinearRelu) ==
      "%y [linear_relu]: %x: ACT, %w: WEIGHT, %b: derived (product_of_scales) from %x -> %y, %w -> "
      "%y\n"
      "%z [linear_relu]: => ACT\n");
}

TEST_CASE("the first declared row that matches takes the op; the others keep out",
          "[quantizers][json][declared]") {
  const std::string claim =
      R"j({"name": "float_linear", "pattern": "linear(x, w, b?)", "inputs": {"x": null}},)j";
  CHECK(row_annotations(claim + kLinearRow, kLinearRelu) == "%y [float_linear]:\n");
}

TEST_CASE("same_as names an edge or the producer's value", "[quantizers][json][declared]") {
  const std::string graph =
      "graph(%a: f32[2], %b: f32[2]): %y: f32[2] = aten.minimum.default(%a, %b) return (%y)";
  const std::string edge =
      R"j({"name": "min", "pattern": "minimum(a, b)", "inputs": {"a": "act", "b": {"same_as": {"edge": "a"}}},
                               "output": {"same_as": {"edge": "a"}}})j";
  CHECK(row_annotations(edge, graph) ==
        "%y [min]: %a: ACT, %b: same as %a -> %y => same as %a -> %y\n");
  const std::string node =
      R"j({"name": "min", "pattern": "minimum(a, b)", "inputs": {"a": "act", "b": {"same_as": {"node": "a"}}}})j";
  CHECK(row_annotations(node, graph) == "%y [min]: %a: ACT, %b: same as %a\n");
}

TEST_CASE("an op on the same value twice has one edge", "[quantizers][json][declared]") {
  const std::string graph = "graph(%a: f32[2]): %y: f32[2] = aten.add.Tensor(%a, %a) return (%y)";
  const std::string row =
      R"j({"name": "add", "pattern": "add(a, b)", "inputs": {"a": "act", "b": {"same_as": {"edge": "a"}}}, "output": "act"})j";
  CHECK(row_annotations(row, graph) == "%y [add]: %a: ACT => ACT\n");
}

TEST_CASE("all values of a list share one observer", "[quantizers][json][declared]") {
  const std::string graph =
      "graph(%a: f32[2], %b: f32[2]): %y: f32[4] = aten.cat.default([%a, %b]) return (%y)";
  const std::string row =
      R"j({"name": "cat", "pattern": "cat(x...)", "inputs": {"x": {"all_same": "act"}}, "output": {"same_as": {"edge": "x"}}})j";
  CHECK(row_annotations(row, graph) ==
        "%y [cat]: %a: ACT, %b: same as %a -> %y => same as %a -> %y\n");
}

TEST_CASE("fixed scales and custom ops", "[quantizers][json][declared]") {
  const std::string graph = "graph(%a: f32[2]): %y: f32[2] = my.op.default(%a) return (%y)";
  CHECK(row_annotations(R"j({"name": "mine", "pattern": "my.op.default(x)", "output": "prob"})j",
                        graph) == "%y [mine]: => fixed 0.00390625, 0 uint8 0..255\n");
}

TEST_CASE("a derived bias without a bias, and one whose source is absent, are left out",
          "[quantizers][json][declared]") {
  const std::string graph =
      R"j(graph(%x: f32[2,4], %w = param "w": f32[3,4]): %y: f32[2,3] = aten.linear.default(%x, %w) return (%y))j";
  CHECK(row_annotations(kLinearRow, graph) == "%y [linear]: %x: ACT, %w: WEIGHT => ACT\n");
  const std::string row =
      R"j({"name": "linear", "pattern": "linear(x, w, b?)", "inputs": {"x": "act", "b": "act",
      "w": {"derived_from": ["b"], "derive": "sum_of_scales", "dtype": "int8"}}})j";
  CHECK(row_annotations(row, graph) == "%y [linear]: %x: ACT\n");
}

TEST_CASE("filters of a declared backend leave modules, types and ops float",
          "[quantizers][json][declared]") {
  const std::string stack = "fc,fc,torch.nn.modules.linear.Linear";
  const auto annotated = [&](const std::string& rest) {
    return annotations_of(file_of(kLinearRow, rest), kLinearRelu, {{"y", stack}});
  };
  CHECK_FALSE(annotated("").empty());
  CHECK(annotated(R"j(, "module_name": {"fc": null})j").empty());
  CHECK(annotated(R"j(, "module_type": {"torch.nn.Linear": null})j").empty());
  CHECK(annotated(R"j(, "op_type": {"aten.linear.default": null})j").empty());
  CHECK(annotated(R"j(, "global": null)j").empty());
  CHECK_FALSE(annotated(R"j(, "global": null, "module_name": {"fc": {}})j").empty());
}

TEST_CASE("a declared backend reports what it leaves float", "[quantizers][json][declared]") {
  const std::unique_ptr<Quantizer> quantizer = parse_quantizer(file_of(kLinearRow), "npu.json");
  const test::Annotated annotated = annotate_text(kLinearRelu, *quantizer);
  CHECK(test::reason_for(annotated.report, "z") == "no rule of npu matches aten.relu.default");
  const test::Annotated half = annotate_text(
      R"j(graph(%x: f16[2,4], %w = param "w": f16[3,4]): %y: f16[2,3] = aten.linear.default(%x, %w) return (%y))j",
      *quantizer);
  CHECK(test::reason_for(half.report, "y") == "input %x is float16, want float32");
}

TEST_CASE("implicit sharing can be switched off by row", "[quantizers][json][declared]") {
  const auto allows = [](const std::string& field) {
    Graph graph;
    Annotations annotations;
    Report report;
    Value* x = graph.add_input("x", ValueKind::kTensor, make_meta(DType::kFloat32, {2}));
    Node* relu = graph.add_node("aten.relu.default", {{"self", x}}, "y");
    graph.add_result(*relu, "y", make_meta(DType::kFloat32, {2}));
    parse_quantizer(file_of(R"j({"pattern": "relu(x)", "inputs": {"x": "act"})j" + field + "}"),
                    "npu.json")
        ->annotate(graph, annotations, report);
    return annotations.find(relu)->allow_implicit_sharing;
  };
  CHECK(allows(""));
  CHECK_FALSE(allows(R"j(, "allow_implicit_sharing": false)j"));
}

TEST_CASE("every field of a spec and of an observer is read", "[quantizers][json][declared]") {
  const auto spec_of = [](const std::string& spec) {
    return annotations_of(
        R"j({"patterns": [{"name": "r", "pattern": "relu(x)", "inputs": {"x": )j" + spec + "}}]}",
        "graph(%x: f32[2,4]): %y: f32[2,4] = aten.relu.default(%x) return (%y)");
  };
  CHECK(
      spec_of(
          R"j({"dtype": "int16", "qscheme": "per_channel_affine", "ch_axis": 1, "observer": {"name": "per_channel_min_max", "eps": 0.5}})j") ==
      "%y [r]: %x: int16 per_channel_affine axis 1 per_channel_min_max\n");
  CHECK(spec_of(R"j({"dtype": "uint8", "is_dynamic": true, "observer": "placeholder"})j") ==
        "%y [r]: %x: uint8 dynamic placeholder\n");
  CHECK(
      spec_of(
          R"j({"dtype": "int8", "observer": {"name": "histogram", "bins": 64, "reduce_range": true}})j") ==
      "%y [r]: %x: int8 histogram\n");
  CHECK(
      spec_of(
          R"j({"dtype": "int8", "observer": {"name": "moving_average_min_max", "averaging_constant": 0.5}})j") ==
      "%y [r]: %x: int8 moving_average_min_max\n");
  CHECK(spec_of(R"j({"dtype": "int8", "quant_min": -8, "quant_max": 7,
                    "observer": {"name": "affine_min_max", "granularity": "per_group", "group_size": 2, "mapping_type": "symmetric"}})j") ==
        "%y [r]: %x: int8 -8..7 SYMMETRIC per_group 2 affine_min_max\n");
  CHECK(
      spec_of(
          R"j({"dtype": "int8", "is_dynamic": true, "observer": {"name": "affine_placeholder", "granularity": "per_token",
                    "mapping_type": "asymmetric", "scale_dtype": "float32", "zero_point_dtype": "int8", "preserve_zero": true,
                    "zero_point_domain": "int"}})j") ==
      "%y [r]: %x: int8 dynamic ASYMMETRIC per_token affine_placeholder\n");
}

TEST_CASE("faults in rows are named with their place", "[quantizers][json][declared]") {
  const std::string at = "quantizer: npu.json: /patterns/0";
  CHECK(declared_fault(R"j({"patterns": []})j") ==
        "quantizer: npu.json: /patterns: got [], want a list of rows");
  CHECK(declared_fault(R"j({"name": "a\nb", "patterns": [3]})j") ==
        "quantizer: npu.json: /name: got \"a\\nb\", want a string of one line that is not empty");
  CHECK(declared_fault(R"j({"patterns": [3], "a\nb": 1})j")
            .starts_with("quantizer: npu.json: /a?b: unknown key"));
  CHECK(declared_fault(R"j({"patterns": [3]})j") == at + ": got 3, want an object");
  CHECK(declared_fault(file_of(kLinearRow, R"j(, "opaqe": {})j")) ==
        "quantizer: npu.json: /opaqe: unknown key, want one of name, specs, patterns, sharing_ops, "
        "global, op_type, module_type, "
        "module_name_regex, module_name, call_index, opaque");
  CHECK(declared_fault(file_of(kLinearRow, R"j(, "module_name": {"fc": {"act": 1}})j")) ==
        "quantizer: npu.json: /module_name/fc/act: unknown key, want one of dtype_config");
  CHECK(row_message(R"j({"inputs": {}})j") ==
        at + ": has no \"pattern\", want e.g. \"relu(linear(x, w, b?))\"");
  CHECK(row_message(R"j({"pattern": "relu(x)"})j") ==
        at + ": quantizes nothing, want \"inputs\" or \"output\"");
  CHECK(row_message(R"j({"pattern": "relu(x", "inputs": {"x": "act"}})j") ==
        at + "/pattern: relu(x: column 7: got the end, want ',' or ')'");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"y": "act"}})j") ==
        at + "/inputs/y: \"y\" is not a slot of relu(x), want one of x");
  CHECK(row_message(R"j({"pattern": "reluu(x)", "inputs": {"x": "act"}})j") ==
        at + "/pattern: reluu(x): aten.reluu is not an ATen op; write custom ops as "
             "my_ns.my_op.default");
  CHECK(row_message(R"j({"pattern": "relu(aten.conv2d.valid(x, w))", "inputs": {"x": "act"}})j") ==
        at + "/pattern: relu(aten.conv2d.valid(x, w)): aten.conv2d.valid is not an ATen op; write "
             "custom ops as my_ns.my_op.default");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": ["x"]})j") ==
        at + "/inputs: got [\"x\"], want an object of slots and specs");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": "int8"}})j") ==
        at + "/inputs/x: got \"int8\", want a spec in place, or one of act, bias, prob, weight");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": 8}})j") ==
        at + "/inputs/x: got 8, want the name of a spec, a spec, or null to leave it float");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": "act"}, "output": "bias"})j") ==
        at + "/output: \"w\" is not a slot of relu(x), want one of x");
  CHECK(row_message(R"j({"pattern": "relu(x)", "output": {"same_as": {"edge": "x"}}})j") ==
        at + "/output: takes its scale from slot \"x\", which has no spec in \"inputs\"");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": {"same_as": {"edge": "x"}}}})j") ==
        at + "/inputs/x: takes its scale from itself, want another slot than \"x\"");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": {"same_as": {"value": "x"}}}})j") ==
        at + "/inputs/x/same_as/value: unknown key, want one of edge, node");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": {"same_as": {}}}})j") ==
        at + "/inputs/x/same_as: got {}, want {\"edge\": a slot} or {\"node\": a slot}");
  CHECK(row_message(R"j({"pattern": "relu(x)", "inputs": {"x": {"all_same": "act"}}})j") ==
        at + "/inputs/x: all_same is for list slots, got the single slot \"x\"; write \"x...\" in "
             "the pattern");
  CHECK(row_message(R"j({"pattern": "cat(x...)", "inputs": {"x": {"all_same": "prob"}}})j") ==
        at + "/inputs/x/all_same: got \"prob\", want a spec with an observer");
  CHECK(row_message(
            R"j({"pattern": "relu(x)", "inputs": {"x": "act"}, "allow_implicit_sharing": 1})j") ==
        at + "/allow_implicit_sharing: got 1, want true or false");
}

TEST_CASE("a file with any one value replaced is read, or refused in one line",
          "[quantizers][json][declared]") {
  using Json = nlohmann::ordered_json;
  const Json whole = Json::parse(
      R"j({"compose": ["embedding", {"base": "x86", "global": {"is_dynamic": true}}, )j" +
      file_of(kLinearRow) + R"j(, {
      "patterns": [{"pattern": "cat(x...)", "inputs": {"x": {"all_same": {"dtype": "int8", "quant_min": -8, "quant_max": 7, "is_dynamic": false,
          "observer": {"name": "affine_min_max", "granularity": "per_group", "group_size": 2, "mapping_type": "symmetric"}}}},
          "output": {"same_as": {"edge": "x"}}}], "module_name": {"fc": null}}]})j");
  const Json flat = whole.flatten();
  int refused = 0;
  const auto try_file = [&](const std::string& text) {
    try {
      annotations_of(text, kLinearRelu);
    } catch (const Error& error) {
      ++refused;
      INFO(text);
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
  };
  for (Json::json_pointer place :
       {Json::json_pointer("/compose"), Json::json_pointer("/compose/2/patterns/0"),
        Json::json_pointer("/compose/2/specs/act")})
    for (const char* value : {"null", "3", "\"x\"", "[]", "{}", "[[]]"}) {
      Json changed = whole;
      changed[place] = Json::parse(value);
      try_file(changed.dump());
    }
  for (const auto& [path, leaf] : flat.items())
    for (const char* value : {"null", "3", "-1", "1e300", "18446744073709551615", "\"x\"", "\"\"",
                              "[]", "{}", "[1]", "true"}) {
      Json changed = whole;
      changed[Json::json_pointer(path)] = Json::parse(value);
      try_file(changed.dump());
    }
  const std::string text = whole.dump();
  for (size_t length = 0; length < text.size(); length += 7) try_file(text.substr(0, length));
  CHECK(refused > 300);
}

TEST_CASE("patterns without end are refused before they are parsed",
          "[quantizers][json][declared]") {
  std::string pattern;
  for (int i = 0; i < 100000; ++i) pattern += "relu(";
  CHECK_THAT(
      row_message(R"j({"pattern": ")j" + pattern + R"j("})j"),
      Catch::Matchers::EndsWith("..., want a pattern of at most 1000 characters, not 500000"));
}

TEST_CASE("faults in specs are named with their place", "[quantizers][json][declared]") {
  const std::string at = "quantizer: npu.json: /specs/s";
  CHECK(spec_message("3") == at + ": got 3, want a spec");
  CHECK(spec_message(R"j({"observer": "min_max"})j") ==
        at + ": has no \"dtype\", want e.g. \"int8\"");
  CHECK(spec_message(R"j({"dtype": "int7", "observer": "min_max"})j") ==
        at + "/dtype: got \"int7\", want one of int8, uint8, int16, uint16, int32, float16, "
             "float8_e4m3fn, float8_e5m2");
  CHECK(spec_message(
            R"j({"dtype": "int64", "quant_min": -8, "quant_max": 7, "observer": "min_max"})j") ==
        at + "/dtype: got \"int64\", want one of int8, uint8, int16, uint16, int32, float16, "
             "float8_e4m3fn, float8_e5m2");
  CHECK(spec_message(R"j({"fixed": {"scale": 1, "zero_point": 0}, "dtype": "float16"})j") ==
        at + "/dtype: got \"float16\", want one of int8, uint8, int16, uint16, int32");
  CHECK_THAT(spec_message(R"j({"dtype": "int8"})j"),
             Catch::Matchers::StartsWith(at + ": has no \"observer\", want one of min_max, "));
  CHECK_THAT(spec_message(R"j({"dtype": "int8", "observer": "minmax"})j"),
             Catch::Matchers::StartsWith(at + "/observer: got \"minmax\", want one of min_max, "));
  CHECK_THAT(spec_message(R"j({"dtype": "int8", "observer": {"eps": 1}})j"),
             Catch::Matchers::StartsWith(at + "/observer: has no \"name\", want one of min_max, "));
  CHECK(spec_message(R"j({"dtype": "int8", "observer": 1})j") ==
        at + "/observer: got 1, want the name of an observer, or an object with its \"name\" and "
             "arguments");
  CHECK(spec_message(R"j({"dtype": "int8", "observer": {"name": "min_max", "eps": 0}})j") ==
        at + "/observer/eps: got 0, want a number above 0 that float32 can hold");
  CHECK(spec_message(R"j({"dtype": "int8", "observer": {"name": "histogram", "bins": 1}})j") ==
        at + "/observer/bins: got 1, want an int in 2 .. 1048576");
  CHECK(
      spec_message(
          R"j({"dtype": "int8", "observer": {"name": "moving_average_min_max", "averaging_constant": 2}})j") ==
      at + "/observer/averaging_constant: got 2, want at most 1");
  CHECK(spec_message(R"j({"dtype": "int8", "observer": {"name": "min_max", "group_size": 32}})j") ==
        at + "/observer/group_size: unknown key, want one of name, eps, bins, averaging_constant, "
             "reduce_range, percentile");
  CHECK(spec_message(R"j({"dtype": "int8", "quant_min": 0, "observer": "min_max"})j") ==
        at + ": has one of quant_min and quant_max, want both or neither");
  CHECK(spec_message(
            R"j({"dtype": "int8", "quant_min": -128, "quant_max": 128, "observer": "min_max"})j") ==
        at + ": spec: the quant range leaves int8, got 128, want [-128, 127]");
  CHECK(spec_message(
            R"j({"dtype": "int8", "quant_min": 1, "quant_max": 9, "observer": "min_max"})j") ==
        at + ": min_max: the quant range must hold 0, got [1, 9]");
  CHECK_THAT(
      spec_message(
          R"j({"dtype": "int8", "qscheme": "per_channel_symmetric", "observer": "per_channel_min_max"})j"),
      Catch::Matchers::StartsWith(
          at + ": spec: a spec with qscheme per_channel_symmetric has no ch_axis"));
  CHECK(spec_message(R"j({"dtype": "int8", "qscheme": "per_row", "observer": "min_max"})j") ==
        at + "/qscheme: got \"per_row\", want one of per_tensor_affine, per_tensor_symmetric, "
             "per_channel_affine, per_channel_symmetric, "
             "per_channel_affine_float_qparams");
  CHECK(spec_message(R"j({"dtype": "int8", "ch_axis": -1, "observer": "min_max"})j") ==
        at + "/ch_axis: got -1, want an int in 0 .. 63");
  CHECK(spec_message(R"j({"fixed": {"scale": 0, "zero_point": 0}, "dtype": "uint8"})j") ==
        at + "/fixed/scale: got 0, want a number above 0 that float32 can hold");
  CHECK(spec_message(R"j({"fixed": {"scale": 1e-60, "zero_point": 0}, "dtype": "uint8"})j") ==
        at + "/fixed/scale: got 1e-60, want a number above 0 that float32 can hold");
  CHECK(spec_message(R"j({"fixed": {"scale": 1}, "dtype": "uint8"})j") ==
        at + "/fixed: has no \"zero_point\", want scale and zero_point");
  CHECK(spec_message(R"j({"fixed": {"scale": 1, "zero_point": 300}, "dtype": "uint8"})j") ==
        at + ": spec: a fixed zero point lies outside of the quant range, got 300, want [0, 255]");
  CHECK(spec_message(R"j({"derived_from": [], "derive": "sum_of_scales", "dtype": "int32"})j") ==
        at + "/derived_from: got [], want a list of slots, e.g. [\"x\", \"w\"]");
  CHECK(spec_message(R"j({"derived_from": ["x"], "dtype": "int32"})j") ==
        at + ": has no \"derive\", want one of product_of_scales, sum_of_scales");
  CHECK(spec_message(R"j({"derived_from": ["x"], "derive": "mean", "dtype": "int32"})j") ==
        at + "/derive: got \"mean\", want one of product_of_scales, sum_of_scales");
}

TEST_CASE("faults in the granularity of an affine observer are named with their place",
          "[quantizers][json][declared]") {
  const auto message = [](const std::string& fields) {
    return spec_message(R"j({"dtype": "int8", "observer": {"name": "affine_min_max", )j" + fields +
                        "}}");
  };
  const std::string at = "quantizer: npu.json: /specs/s/observer";
  CHECK(message(R"j("granularity": "per_channel")j") ==
        at + "/granularity: got \"per_channel\", want one of per_tensor, per_axis, per_group, "
             "per_token, per_row, per_block");
  CHECK(message(R"j("granularity": "per_group")j") ==
        at + ": granularity per_group needs \"group_size\"");
  CHECK(message(R"j("granularity": "per_axis", "axis": 0, "group_size": 2)j") ==
        at + "/group_size: granularity per_axis has no \"group_size\"");
  CHECK(message(R"j("granularity": "per_block", "block_size": [1, 0])j") ==
        at + "/block_size/1: got 0, want an int in 1 .. 2147483647");
  CHECK(message(R"j("granularity": "per_block", "block_size": 2)j") ==
        at + "/block_size: got 2, want a list of ints, one per dimension");
  CHECK(message(R"j("scale_dtype": "f32")j") ==
        at + "/scale_dtype: got \"f32\", want a dtype, e.g. \"int8\" or \"float32\"");
  CHECK(message(R"j("mapping_type": "even")j") ==
        at + "/mapping_type: got \"even\", want one of symmetric, symmetric_no_clipping_err, "
             "asymmetric");
  CHECK(message(R"j("zero_point_domain": "bool")j") ==
        at + "/zero_point_domain: got \"bool\", want one of int, float, none");
}

}  // namespace octet::test_declared
