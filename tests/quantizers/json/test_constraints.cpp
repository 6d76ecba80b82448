// Constraints of declared rows: which matches they refuse in the graph, and errors against specs
// and scales.
#include <catch2/catch.hpp>

#include <ATen/ops/full.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test_constraints {
namespace {

using test::annotate_text;

constexpr const char* kConv = R"j(graph(%x: f32[1,4,8,8], %w = param "w": f32[4,2,3,3]):
  %y: f32[1,4,8,8] = aten.conv2d.default(%x, %w, None, [1, 1], [1, 1], [1, 1], 2) return (%y))j";
constexpr const char* kSigmoid =
    R"j(graph(%x: f32[2,3]): %y: f32[2,3] = aten.sigmoid.default(%x) return (%y))j";

const std::string kAct =
    R"j({"dtype": "int8", "qscheme": "per_tensor_affine", "quant_min": -128, "quant_max": 127, "observer": {"name": "min_max", "eps": 0.000244140625}})j";

std::string file_of(const std::string& rows, const std::string& rest = "") {
  return R"j({"name": "npu", "specs": {"act": )j" + kAct + R"j(,
    "small": {"dtype": "int8", "quant_min": -8, "quant_max": 7, "observer": "min_max"},
    "prob": {"fixed": {"scale": 0.00390625, "zero_point": 0}, "dtype": "uint8"}}, "patterns": [)j" +
         rows + "]" + rest + "}";
}

// Why a row with these constraints leaves the op float; "" when it takes the op.
std::string refusal(const std::string& graph, const std::string& pattern,
                    const std::string& constraints, const std::string& slot = "x") {
  const std::string row = R"j({"name": "r", "pattern": ")j" + pattern + R"j(", "inputs": {")j" +
                          slot + R"j(": "act"}, "output": "act", "constraints": )j" + constraints +
                          "}";
  return test::reason_for(annotate_text(graph, *parse_quantizer(file_of(row), "npu.json")).report,
                          "y");
}

// The errors of prepare, and then of convert, when each input is a tensor of this value.
std::string message_of(const std::string& rows, const std::string& graph, double value,
                       const std::string& rest = "") {
  return test::error_message([&] {
    Report report;
    ObservedGraph observed =
        prepare_pt2e(parse_graph(graph), *parse_quantizer(file_of(rows, rest), "npu.json"), report);
    calibrate(observed, {{at::full({2, 3}, value)}});
    convert_pt2e(std::move(observed), {}, report);
  });
}

std::string sigmoid_row(const std::string& constraints) {
  return R"j({"name": "sigmoid", "pattern": "sigmoid(x)", "inputs": {"x": "act"}, "output": "prob", "constraints": )j" +
         constraints + "}";
}

}  // namespace

TEST_CASE("a constraint on the rank refuses the match with its reason",
          "[quantizers][json][constraints]") {
  CHECK(refusal(kSigmoid, "sigmoid(x)", R"j({"x": {"max_rank": 4}})j").empty());
  CHECK(refusal(kSigmoid, "sigmoid(x)", R"j({"x": {"rank": 2}})j").empty());
  CHECK(refusal(kSigmoid, "sigmoid(x)", R"j({"x": {"max_rank": 1}})j") ==
        "input %x has rank 2, want at most 1 (constraint of slot x)");
  CHECK(refusal(kSigmoid, "sigmoid(x)", R"j({"output": {"min_rank": 3}})j") ==
        "output %y has rank 2, want at least 3 (constraint of the output)");
}

TEST_CASE("a constraint on the dtype applies to the float graph, also to slots without spec",
          "[quantizers][json][constraints]") {
  constexpr const char* kTable =
      R"j(graph(%i: i32[3], %t = param "t": f32[10,4]): %y: f32[3,4] = aten.embedding.default(%t, %i) return (%y))j";
  CHECK(
      refusal(kTable, "embedding(t, i)", R"j({"i": {"dtype": ["int64", "int32"]}})j", "t").empty());
  CHECK(refusal(kTable, "embedding(t, i)", R"j({"i": {"dtype": "int64"}})j", "t") ==
        "input %i is int32, want int64 (constraint of slot i)");
}

TEST_CASE("constraints on groups, users and constants", "[quantizers][json][constraints]") {
  const std::string conv = "conv2d(x, w, b?)";
  CHECK(refusal(kConv, conv,
                R"j({"op": {"groups": [1, 2]}, "w": {"is_constant": true, "one_user": true}})j")
            .empty());
  CHECK(refusal(kConv, conv, R"j({"op": {"groups": 1}})j") == "%y has groups=2, want 1");
  CHECK(refusal(kConv, conv, R"j({"x": {"is_constant": true}})j") ==
        "input %x is computed at run time, want a constant (constraint of slot x)");
  constexpr const char* kTwice =
      R"j(graph(%x: f32[2]): %y: f32[2] = aten.sigmoid.default(%x) %z: f32[2] = aten.tanh.default(%x) return (%y, %z))j";
  CHECK(refusal(kTwice, "sigmoid(x)", R"j({"x": {"one_user": true}})j") ==
        "input %x has 2 users, want one (constraint of slot x)");
  CHECK(refusal(kTwice, "sigmoid(x)", R"j({"output": {"one_user": true}})j") ==
        "output %y has 0 users and is an output, want one (constraint of the output)");
}

TEST_CASE("a refused match is left to the rows after it", "[quantizers][json][constraints]") {
  const std::string rows =
      sigmoid_row(R"j({"x": {"max_rank": 1}})j") +
      R"j(, {"name": "any", "pattern": "sigmoid(x)", "inputs": {"x": "act"}})j";
  CHECK(annotate_text(kSigmoid, *parse_quantizer(file_of(rows), "npu.json")).text ==
        "%y [any]: %x: int8 -128..127 per_tensor_affine min_max\n");
}

TEST_CASE("validate follows shared specs to the one that a limit applies to",
          "[quantizers][json][constraints]") {
  constexpr const char* kChain =
      R"j(graph(%x: f32[2,3]): %t: f32[2,3] = aten.tanh.default(%x) %y: f32[2,3] = aten.relu.default(%t) return (%y))j";
  const auto message = [&](const std::string& spec) {
    return message_of(R"j({"name": "tanh", "pattern": "tanh(x)", "output": ")j" + spec +
                          R"j("}, {"name": "relu", "pattern": "relu(x)",
      "inputs": {"x": {"same_as": {"node": "x"}}}, "output": {"same_as": {"edge": "x"}}, "constraints": {"output": {"quant_max_upper_bound": 63}}})j",
                      kChain, 1);
  };
  CHECK(message("small") == "no error");
  CHECK(message("act") ==
        "quantizer: npu.json: /patterns/1/constraints/output: %y: quant_max is 127, want at most "
        "63 (quant_max_upper_bound); give it another spec or "
        "change the constraint");
}

TEST_CASE("convert checks the scales that calibration finds against their limits",
          "[quantizers][json][constraints]") {
  CHECK(
      message_of(
          sigmoid_row(R"j({"x": {"scale_min_lower_bound": 0.001, "scale_max_upper_bound": 0.1}})j"),
          kSigmoid, 2.55) == "no error");
  CHECK(message_of(sigmoid_row(R"j({"x": {"scale_min_lower_bound": 0.125}})j"), kSigmoid, 2.55) ==
        "convert: npu.json: /patterns/0/constraints/x: %x -> %y: scale is 0.01, want at least "
        "0.125 (scale_min_lower_bound) after calibration; give it "
        "another observer or a fixed spec, or change the constraint");
  CHECK_THAT(
      message_of(sigmoid_row(R"j({"x": {"scale_max_upper_bound": 0.005}})j"), kSigmoid, 2.55),
      Catch::Matchers::Contains(
          "%x -> %y: scale is 0.01, want at most 0.005 (scale_max_upper_bound) after calibration"));
  CHECK_THAT(message_of(sigmoid_row(R"j({"x": {"zero_point_exact_match": 0}})j"), kSigmoid, 2.55),
             Catch::Matchers::Contains("%x -> %y: zero point is -128, want exactly 0 "
                                       "(zero_point_exact_match) after calibration"));
  CHECK(
      message_of(
          sigmoid_row(
              R"j({"output": {"scale_exact_match": 0.00390625, "zero_point_exact_match": 0, "quantized_dtype": "uint8"}})j"),
          kSigmoid, 2.55) == "no error");
}

TEST_CASE("ops that share take the scale of what they read, with a reason when that is float",
          "[quantizers][json][constraints]") {
  constexpr const char* kPool =
      R"j(graph(%x: f32[1,2,4,4]): %t: f32[1,2,4,4] = aten.sigmoid.default(%x)
    %p: f32[1,2,2,2] = aten.max_pool2d.default(%t, [2, 2]) %q: f32[1,2,1,1] = aten.max_pool2d.default(%x, [4, 4]) return (%p, %q))j";
  const test::Annotated annotated = annotate_text(
      kPool, *parse_quantizer(file_of(sigmoid_row("{}"), R"j(, "sharing_ops": ["max_pool2d"])j"),
                              "npu.json"));
  CHECK(annotated.text ==
        "%t [sigmoid]: %x: int8 -128..127 per_tensor_affine min_max => fixed 0.00390625, 0 uint8\n"
        "%p [share]: %t: same as %t => same as %t\n");
  CHECK(test::reason_for(annotated.report, "q") ==
        "it shares the scale of its input, and %x is not quantized");
}

TEST_CASE("like_producer shares the producer's observer where there is one",
          "[quantizers][json][constraints]") {
  constexpr const char* kChain =
      R"j(graph(%x: f32[2,3]): %t: f32[2,3] = aten.tanh.default(%x) %y: f32[2,3] = aten.relu.default(%t)
    %z: f32[2,3] = aten.relu.default(%x) return (%y, %z))j";
  const std::string rows = R"j({"name": "tanh", "pattern": "tanh(x)", "output": "prob"},
      {"name": "relu", "pattern": "relu(x)", "inputs": {"x": {"like_producer": "small"}}})j";
  CHECK(annotate_text(kChain, *parse_quantizer(file_of(rows), "npu.json")).text ==
        "%t [tanh]: => fixed 0.00390625, 0 uint8\n"
        "%y [relu]: %t: same as %t\n"
        "%z [relu]: %x: int8 -8..7 min_max\n");
}

TEST_CASE("the owner of a list's observer may be the value that is quantized already",
          "[quantizers][json][constraints]") {
  constexpr const char* kCat = R"j(graph(%a: f32[2], %b: f32[2]): %t: f32[2] = aten.tanh.default(%b)
    %y: f32[4] = aten.cat.default([%a, %t]) return (%y))j";
  const auto annotated = [&](const std::string& owner) {
    const std::string rows =
        R"j({"name": "tanh", "pattern": "tanh(x)", "output": "act"}, {"name": "cat", "pattern": "cat(x...)",
      "inputs": {"x": {"all_same": "small"}}, "owner": ")j" +
        owner + "\"}";
    return annotate_text(kCat, *parse_quantizer(file_of(rows), "npu.json")).text;
  };
  CHECK_THAT(annotated("first"),
             Catch::Matchers::Contains("%a: int8 -8..7 min_max, %t: same as %a -> %y"));
  CHECK_THAT(annotated("first_quantized"),
             Catch::Matchers::Contains("%t: int8 -8..7 min_max, %a: same as %t -> %y"));
}

TEST_CASE("a value that one match owns is kept from the next", "[quantizers][json][constraints]") {
  constexpr const char* kShared =
      R"j(graph(%x: f32[2,4], %w = param "w": f32[4,4]): %t: f32[2,4] = aten.linear.default(%x, %w)
    %y: f32[2,4] = aten.linear.default(%t, %w) return (%y))j";
  const std::string row =
      R"j({"name": "linear", "pattern": "linear(x, w)", "inputs": {"w": "act"}, "owned": ["w"]})j";
  const test::Annotated annotated =
      annotate_text(kShared, *parse_quantizer(file_of(row), "npu.json"));
  CHECK(annotated.text == "%t [linear]: %w: int8 -128..127 per_tensor_affine min_max\n");
  CHECK(test::reason_for(annotated.report, "y") == "%w already belongs to another quantized op");
}

TEST_CASE("specs that the shape of a tensor does not fit leave its op float with the reason",
          "[quantizers][json][constraints]") {
  constexpr const char* kLinear =
      R"j(graph(%x: f32[2,6], %w = param "w": f32[4,6]): %y: f32[2,4] = aten.linear.default(%x, %w) return (%y))j";
  const auto reason = [&](const std::string& spec) {
    const std::string row = R"j({"pattern": "linear(x, w)", "inputs": {"w": )j" + spec + "}}";
    return test::reason_for(
        annotate_text(kLinear, *parse_quantizer(file_of(row), "npu.json")).report, "y");
  };
  const auto groups = [](int size) {
    return R"j({"dtype": "int8", "observer": {"name": "affine_min_max", "granularity": "per_group", "group_size": )j" +
           std::to_string(size) + "}}";
  };
  CHECK(reason(groups(3)).empty());
  CHECK_THAT(reason(groups(4)), Catch::Matchers::StartsWith("%w: "));
  CHECK(
      reason(
          R"j({"dtype": "int8", "qscheme": "per_channel_symmetric", "ch_axis": 2, "observer": "per_channel_min_max"})j") ==
      "input %w has rank 2, and its spec has a scale per index of dimension 2");
}

}  // namespace octet::test_constraints
