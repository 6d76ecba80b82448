// Elements of list slots in declared rows: separate specs, references, constraints, faults.
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_elements {
namespace {

using Catch::Contains;
using test::annotate_text;
using test::declared_fault;

std::string file_of(const std::string& inputs, const std::string& more = "",
                    const std::string& pattern = "cat(x...)") {
  return R"j({"name": "npu", "specs": {
    "act": {"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": "histogram"},
    "act16": {"dtype": "int16", "qscheme": "per_tensor_symmetric", "observer": "min_max"}},
    "patterns": [{"name": "cat", "pattern": ")j" +
         pattern + R"j(", "inputs": )j" + inputs + more + "}]}";
}

std::string cat_text(const std::string& list) {
  return R"(graph(%a: f32[2,4], %b: f32[2,4], %c: f32[2,4]):
    %y: f32[6,4] = aten.cat.default()" +
         list + R"()
    return (%y))";
}

test::Annotated annotated(const std::string& json, const std::string& list = "[%a, %b, %c]") {
  return annotate_text(cat_text(list), *parse_quantizer(json, "npu.json"));
}

const std::string kAct16 = "int16 per_tensor_symmetric min_max";

}  // namespace

TEST_CASE("each element of a list has its spec, the others that of the list",
          "[quantizers][json][elements]") {
  const std::string rest = annotated(file_of(R"j({"x[1]": "act16", "x": "act"})j")).text;
  CHECK_THAT(rest, Contains("%y [cat]: %b: " + kAct16));
  CHECK_THAT(rest, Contains("%a: ACT") && Contains("%c: ACT"));
  // without a cell for the list the others stay float
  CHECK(annotated(file_of(R"j({"x[0]": "act", "x[2]": "act16"})j")).text ==
        "%y [cat]: %a: ACT, %c: " + kAct16 + "\n");
  CHECK(annotated(file_of(R"j({"x": "act", "x[0]": null})j")).text ==
        "%y [cat]: %b: ACT, %c: ACT\n");
}

TEST_CASE("elements are sources of scales, and all_same is for the rest",
          "[quantizers][json][elements]") {
  CHECK(annotated(file_of(R"j({"x[0]": "act", "x": {"same_as": {"edge": "x[0]"}}})j",
                          R"j(, "output": {"same_as": {"edge": "x[1]"}})j"))
            .text ==
        "%y [cat]: %a: ACT, %b: same as %a -> %y, %c: same as %a -> %y => "
        "same as %b -> %y\n");
  CHECK(annotated(file_of(R"j({"x[0]": "act16", "x": {"all_same": "act"}})j",
                          R"j(, "output": {"same_as": {"edge": "x"}})j"))
            .text ==
        "%y [cat]: %a: " + kAct16 + ", %b: ACT, %c: same as %b -> %y => same as %b -> %y\n");
}

TEST_CASE("a list that has no such element, or has it twice, is left to other rows",
          "[quantizers][json][elements]") {
  const std::string row = file_of(R"j({"x[2]": "act16", "x": "act"})j");
  const test::Annotated shorter = annotated(row, "[%a, %b]");
  CHECK(shorter.text.empty());
  CHECK(test::reason_for(shorter.report, "y") == "row cat names x[2], and x has 2 elements");
  CHECK(test::reason_for(annotated(row, "[%a, %b, %a, %c]").report, "y") ==
        "row cat names x[2], whose value %a is in the list twice");
}

TEST_CASE("constraints on an element decide for the row", "[quantizers][json][elements]") {
  const std::string row =
      file_of(R"j({"x[1]": "act"})j", R"j(, "constraints": {"x[1]": {"rank": 3}})j");
  CHECK(annotated(row).text.empty());
  CHECK_THAT(test::reason_for(annotated(row).report, "y"), Contains("rank 2"));
}

TEST_CASE("elements with separate scales are quantized with these",
          "[quantizers][json][elements]") {
  Graph graph = parse_graph(cat_text("[%a, %b, %c]"));
  const std::unique_ptr<Quantizer> quantizer =
      parse_quantizer(file_of(R"j({"x[0]": "act", "x[1]": "act16"})j"), "npu.json");
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(graph), *quantizer, report);
  const auto filled = [](double value) {
    return c10::IValue(to_aten(Tensor::from<float>(
        DType::kFloat32, {2, 4}, std::vector<float>(8, static_cast<float>(value)))));
  };
  calibrate(observed, {{filled(1.27), filled(3.2767), filled(5)}});
  const Graph quantized = convert_pt2e(std::move(observed), {}, report);
  const std::string text = to_text(quantized);
  CHECK_THAT(text, Contains("quantize_per_tensor.default(%a"));
  CHECK_THAT(text, Contains("quantize_per_tensor.default(%b") && Contains("-32768, 32767, i16"));
  CHECK_THAT(text, !Contains("quantize_per_tensor.default(%c"));
}

TEST_CASE("faults in the names of elements are errors with their place",
          "[quantizers][json][elements]") {
  const std::string at = "quantizer: npu.json: /patterns/0/inputs/";
  CHECK_THAT(
      declared_fault(file_of(R"j({"x[-1]": "act"})j")),
      Contains(at +
               "x[-1]: \"x[-1]\" does not name an element of a list slot, want e.g. \"x[0]\""));
  CHECK_THAT(declared_fault(file_of(R"j({"x[01]": "act"})j")),
             Contains("does not name an element"));
  CHECK_THAT(declared_fault(file_of(R"j({"z[0]": "act"})j")), Contains("does not name an element"));
  CHECK_THAT(declared_fault(file_of(R"j({"x[0]": "act"})j", "", "relu(x)")),
             Contains("\"x[0]\" is an element of \"x\", which is not a list slot; write \"x...\""));
  CHECK_THAT(declared_fault(file_of(R"j({"x[0]": {"all_same": "act"}})j")),
             Contains("all_same is for list slots"));
  CHECK_THAT(declared_fault(file_of(R"j({"x": {"same_as": {"edge": "x[0]"}}})j")),
             Contains("takes its scale from itself"));
  CHECK_THAT(declared_fault(file_of(R"j({"x": "act", "x[0]": {"same_as": {"edge": "x"}}})j")),
             Contains("takes its scale from itself"));
  CHECK_THAT(declared_fault(file_of(R"j({"x[0]": "act", "x[1]": {"same_as": {"edge": "x[2]"}}})j")),
             Contains("takes its scale from slot \"x[2]\", which has no spec"));
  CHECK_THAT(
      declared_fault(file_of(
          R"j({"x[0]": {"same_as": {"edge": "x[1]"}}, "x[1]": {"same_as": {"edge": "x[0]"}}})j")),
      Contains("takes its scale from itself through x[0] -> x[1] -> x[0]"));
}

}  // namespace octet::test_elements
