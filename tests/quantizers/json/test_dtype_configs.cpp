// Declared backends whose rows list several dtype configurations: which one a setting chooses, and
// the error for an unknown name.
#include <catch2/catch.hpp>

#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/compose/declared_quantizer.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test_dtype_configs {
namespace {

using test::annotate_text;
using test::reason_for;

// Linear layers a, b and fc in head, a relu and an addition.
constexpr const char* kNet =
    R"j(graph(%x: f32[2,4], %w = param "a.weight": f32[4,4], %v = param "b.weight": f32[4,4], %u = param "head.fc.weight": f32[4,4]):
  %a: f32[2,4] = aten.linear.default(%x, %w)
  %b: f32[2,4] = aten.linear.default(%a, %v)
  %s: f32[2,4] = aten.add.Tensor(%a, %b)
  %h: f32[2,4] = aten.linear.default(%s, %u)
  return (%h))j";
const test::ModuleStacks kStacks = {
    {"a", "0,,Net;1,a,torch.nn.modules.linear.Linear"},
    {"b", "0,,Net;2,b,torch.nn.modules.linear.Linear"},
    {"s", "0,,Net"},
    {"h", "0,,Net;3,head,my.Head;4,head.fc,torch.nn.modules.linear.Linear"}};

const std::string kSpecs = R"j("specs": {
  "act": {"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": "histogram"},
  "act16": {"dtype": "int16", "qscheme": "per_tensor_symmetric", "observer": "min_max"},
  "found": {"dtype": "int8", "qscheme": "per_tensor_affine", "is_dynamic": true, "observer": "placeholder"},
  "weight": {"dtype": "int8", "qscheme": "per_channel_symmetric", "ch_axis": 0, "quant_min": -127, "quant_max": 127, "observer": "per_channel_min_max"}}, )j";
const std::string kLinear =
    R"j({"name": "linear", "pattern": "linear(x, w)", "dtype_configs": [
      {"name": "int8", "inputs": {"x": "act", "w": "weight"}, "output": "act"},
      {"name": "int16", "inputs": {"x": "act16", "w": "weight"}, "output": "act16", "constraints": {"x": {"max_rank": 4}}},
      {"name": "dynamic", "inputs": {"x": "found", "w": "weight"}}]})j";
const std::string kAdd =
    R"j({"name": "add", "pattern": "add(a, b)", "inputs": {"a": "act", "b": "act"}, "output": "act"})j";
const std::string kAddInt8 =
    R"j({"name": "add", "pattern": "add(a, b)", "dtype_configs": [{"name": "int8", "inputs": {"a": "act", "b": "act"}, "output": "act"}]})j";

std::string file_of(const std::string& rest, const std::string& rows = kLinear + "," + kAdd) {
  return R"j({"name": "npu", )j" + kSpecs + "\"patterns\": [" + rows + "]" + rest + "}";
}

test::Annotated annotated(const std::string& file, const std::string& graph = kNet) {
  return annotate_text(graph, *parse_quantizer(file, "npu.json"),
                       graph == kNet ? kStacks : test::ModuleStacks());
}

// Which configuration each linear op has: "a int8, b int16, h -".
std::string choices(const std::string& settings) {
  const std::string text = annotated(file_of(settings)).text;
  std::string result;
  for (const char* name : {"a", "b", "h"}) {
    const size_t begin = text.find("%" + std::string(name) + " [linear]");
    const std::string line =
        begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
    result += (result.empty() ? "" : ", ") + std::string(name);
    result += line.empty()                                    ? " -"
              : line.find("int16") != std::string::npos       ? " int16"
              : line.find("placeholder") != std::string::npos ? " dynamic"
                                                              : " int8";
  }
  return result;
}

std::string message_of(const std::string& file) {
  return test::error_message([&] {
    const std::unique_ptr<Quantizer> quantizer = parse_quantizer(file, "npu.json");
    Graph graph = parse_graph(kNet);
    for (const auto& [name, stack] : kStacks)
      graph.find_node(name)->metadata["nn_module_stack"] = stack;
    Report report;
    prepare_pt2e(std::move(graph), *quantizer, report);
  });
}

std::string row_message(const std::string& row) { return message_of(file_of("", row)); }

}  // namespace

TEST_CASE("the dtype configuration that a row lists first is the default",
          "[quantizers][json][dtype_configs]") {
  CHECK(choices("") == "a int8, b int8, h int8");
  CHECK(choices(R"(, "global": {})") == "a int8, b int8, h int8");
  CHECK(annotated(file_of("")).text.starts_with("%a [linear]: %x: ACT, %w: WEIGHT => ACT\n"));
}

TEST_CASE("each kind of setting chooses a dtype configuration by its name",
          "[quantizers][json][dtype_configs]") {
  CHECK(choices(R"(, "global": {"dtype_config": "int16"})") == "a int16, b int16, h int16");
  CHECK(choices(R"(, "op_type": {"linear": {"dtype_config": "dynamic"}})") ==
        "a dynamic, b dynamic, h dynamic");
  CHECK(choices(R"(, "module_type": {"my.Head": {"dtype_config": "int16"}})") ==
        "a int8, b int8, h int16");
  CHECK(choices(R"(, "module_name_regex": {"[ab]": {"dtype_config": "int16"}})") ==
        "a int16, b int16, h int8");
  CHECK(choices(R"(, "module_name": {"b": {"dtype_config": "int16"}, "head": null})") ==
        "a int8, b int16, h -");
  CHECK(choices(R"(, "call_index": {"a": {"linear": {"0": {"dtype_config": "dynamic"}}}})") ==
        "a dynamic, b int8, h int8");
}

TEST_CASE("a stronger setting without a name means the default again",
          "[quantizers][json][dtype_configs]") {
  CHECK(choices(R"(, "global": {"dtype_config": "int16"}, "module_name": {"b": {}})") ==
        "a int16, b int8, h int16");
}

TEST_CASE("an op whose row lacks the chosen dtype configuration stays float with the reason",
          "[quantizers][json][dtype_configs]") {
  const std::string settings = R"(, "global": {"dtype_config": "int16"})";
  CHECK(reason_for(annotated(file_of(settings)).report, "s") ==
        "row add has no dtype_config \"int16\", it lists none");
  CHECK(reason_for(annotated(file_of(settings, kLinear + "," + kAddInt8)).report, "s") ==
        "row add has no dtype_config \"int16\", only int8");
}

TEST_CASE("a constraint of the chosen dtype configuration keeps the op float, whatever others take",
          "[quantizers][json][dtype_configs]") {
  const std::string graph =
      R"j(graph(%x: f32[1,1,1,2,4], %w = param "w": f32[4,4]): %a: f32[1,1,1,2,4] = aten.linear.default(%x, %w) return (%a))j";
  const test::Annotated result =
      annotated(file_of(R"(, "global": {"dtype_config": "int16"})"), graph);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "a") ==
        "input %x has rank 5, want at most 4 (constraint of slot x)");
  CHECK(annotated(file_of(""), graph).text == "%a [linear]: %x: ACT, %w: WEIGHT => ACT\n");
}

TEST_CASE("a composition's settings choose dtype configurations of a declared backend",
          "[quantizers][json][dtype_configs]") {
  const std::string file =
      R"({"compose": [)" + file_of("") + R"(, "embedding"], "module_name": {"b": null}})";
  CHECK(annotated(file).text.find("%b [") == std::string::npos);
}

TEST_CASE("C++ lists dtype configurations by rule", "[quantizers][json][dtype_configs]") {
  QuantizationSpec act;
  QuantizationSpec act16;
  act16.dtype = DType::kInt16;
  DeclaredQuantizer quantizer({"mine",
                               {{"linear", "linear(x, w)", {{"x", act}}, act},
                                {"linear", "linear(x, w)", {{"x", act16}}, act16}},
                               {},
                               {},
                               {{"int8", true}, {"int16", false}}});
  REQUIRE(quantizer.configs().size() == 3);
  QuantizationConfig config;
  config.dtype_config = "int16";
  quantizer.set_module_name("b", config);
  const std::string text = annotate_text(kNet, quantizer, kStacks).text;
  CHECK(text.find("%a [linear]: %x: int8") != std::string::npos);
  CHECK(text.find("%b [linear]: %a: int16") != std::string::npos);
}

TEST_CASE("an unknown dtype configuration is refused with a list of the known ones",
          "[quantizers][json][dtype_configs]") {
  CHECK(message_of(file_of(R"(, "module_name": {"b": {"dtype_config": "int4"}})")) ==
        "quantizer: npu.json: /module_name/b/dtype_config: got \"int4\", want one of int8, int16, "
        "dynamic");
  CHECK(message_of(file_of(R"(, "global": {"dtype_config": 8})")) ==
        "quantizer: npu.json: /global/dtype_config: got 8, want one of int8, int16, dynamic");
  CHECK(message_of(file_of(R"(, "op_type": {"aten.add.Tensor": {"dtype_config": "int16"}})",
                           kLinear + "," + kAddInt8)) ==
        "quantizer: npu.json: /op_type/aten.add.Tensor: op_type \"aten.add.Tensor\": no row that "
        "matches there has the dtype_config \"int16\", want one of int8");
  CHECK(message_of(file_of(R"(, "op_type": {"aten.add.Tensor": {"dtype_config": "int16"}})")) ==
        "quantizer: npu.json: /op_type/aten.add.Tensor: op_type \"aten.add.Tensor\": no row that "
        "matches there has the dtype_config \"int16\", they list none; leave it out");
  CHECK(message_of(file_of(R"(, "global": {"dtype_config": "int8"})", kAdd)) ==
        "quantizer: npu.json: /global/dtype_config: the quantizer lists no dtype_configs to choose "
        "among; leave it out");
}

TEST_CASE("a setting may name a dtype configuration that only some of its ops have",
          "[quantizers][json][dtype_configs]") {
  CHECK(message_of(file_of(R"(, "global": {"dtype_config": "int16"})")) == "no error");
  CHECK(message_of(file_of(R"(, "op_type": {"aten.mul.Tensor": {"dtype_config": "int16"}})")) ==
        "no error");  // no such op in this model
}

TEST_CASE("faults in dtype configurations are named with their place",
          "[quantizers][json][dtype_configs]") {
  const auto check = [](const std::string& rest, const std::string& message) {
    CHECK(row_message(R"j({"pattern": "linear(x, w)", )j" + rest + "}") ==
          "quantizer: npu.json: /patterns/0/" + message);
  };
  check(R"("dtype_configs": {})",
        "dtype_configs: got {}, want a list of choices, e.g. [{\"name\": \"int8\", \"inputs\": "
        "{\"x\": \"act\"}}]");
  check(R"("dtype_configs": [])",
        "dtype_configs: got [], want a list of choices, e.g. [{\"name\": \"int8\", \"inputs\": "
        "{\"x\": \"act\"}}]");
  check(R"("dtype_configs": [{"inputs": {"x": "act"}}])",
        "dtype_configs/0: has no \"name\", by which settings choose it");
  check(R"("dtype_configs": [{"name": "a", "inputs": {"x": "act"}}, {"name": "a"}])",
        "dtype_configs/1/name: got \"a\", which is already the name of choice 0; give each a "
        "different name");
  check(R"("dtype_configs": [{"name": "a", "inputs": {"x": "atc"}}])",
        "dtype_configs/0/inputs/x: got \"atc\", want a spec in place, or one of act, act16, found, "
        "weight");
  check(R"("dtype_configs": [{"name": "a", "input": {"x": "act"}}])",
        "dtype_configs/0/input: unknown key, want one of name, inputs, output, constraints");
  check(R"("dtype_configs": [{"name": "a"}])",
        "dtype_configs/0: quantizes nothing, want \"inputs\" or \"output\"");
  check(R"("output": "act", "dtype_configs": [{"name": "a", "output": "act"}])",
        "output: is next to dtype_configs, want it inside each of them");
  check(
      R"("dtype_configs": [{"name": "a", "inputs": {"x": "act"}, "constraints": {"z": {"rank": 2}}}])",
      "dtype_configs/0/constraints/z: \"z\" is not a slot of linear(x, w), want one of x, w, "
      "output, "
      "op");
}

}  // namespace octet::test_dtype_configs
