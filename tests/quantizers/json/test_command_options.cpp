// The options of the command (--mode, --weight-bits, ...) beside what files and configurations say.
#include <catch2/catch.hpp>

#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"

namespace octet::test_command_options {
namespace {

using Catch::Matchers::Contains;

std::string annotate(Quantizer& quantizer, const char* text) {
  return test::annotate_plain(text, quantizer).text;
}

constexpr const char* kLinear =
    R"(graph(%x: f32[2,4], %w = param "fc.weight": f32[3,4]): %y: f32[2,3] = aten.linear.default(%x, %w) return (%y))";

}  // namespace

TEST_CASE("an option that no quantizer has, and a mode that one of them lacks, are errors",
          "[quantizers][registry]") {
  QuantizerOptions options;
  options.is_per_channel = false;
  CHECK_THROWS_WITH(make_quantizer("x86", options),
                    "quantizer: x86: got the option is_per_channel, want one of its options: "
                    "is_dynamic, is_weight_only, weight_bits, "
                    "activation_bits, group_size, reduce_range");
  CHECK_NOTHROW(make_quantizer("embedding,xnnpack", options));
  QuantizerOptions groups;
  groups.group_size = 64;
  CHECK_THROWS_WITH(make_quantizer("embedding", groups),
                    "quantizer: embedding: got the option group_size, want one of its options: "
                    "is_dynamic, is_weight_only, weight_bits");
  QuantizerOptions mode;
  mode.is_weight_only = true;
  CHECK_NOTHROW(make_quantizer("embedding,xnnpack", mode));
  const char* declared =
      R"j({"name": "npu", "specs": {"act": {"dtype": "int8", "observer": "min_max"}},
    "patterns": [{"pattern": "relu(x)", "inputs": {"x": "act"}}]})j";
  CHECK_THROWS_WITH(parse_quantizer(declared, "npu.json", mode),
                    "quantizer: npu: got the option is_weight_only, want one of its options: "
                    "none, because its file defines everything");
}

TEST_CASE("reduce_range halves the range of activations, whatever configurations say",
          "[quantizers][registry]") {
  QuantizerOptions options;
  options.reduce_range = true;
  const auto inputs = [&](const std::string& json) {
    return annotate(*parse_quantizer(json, "q.json", options), kLinear);
  };
  for (const char* name : {"xnnpack", "qnnpack", "embedding,xnnpack"}) {
    INFO(name);
    const std::string text = annotate(*make_quantizer(name, options), kLinear);
    CHECK_THAT(text, Contains("%x: int8 -64..63 per_tensor_affine histogram") &&
                         Contains("=> int8 -64..63"));
    CHECK_THAT(text, Contains("%w: int8 -127..127 per_channel_symmetric"));
  }
  CHECK_THAT(annotate(*make_quantizer("x86", options), kLinear),
             Contains("%x: uint8 0..127") && Contains("%w: int8 -128..127"));
  CHECK_THAT(inputs(R"({"base": "x86", "global": {"reduce_range": false}})"),
             Contains("%x: uint8 0..127"));
  CHECK_THAT(inputs(R"({"base": "xnnpack", "global": {"act_qmin": 0, "act_qmax": 100}})"),
             Contains("%x: int8 0..50"));
  CHECK_THAT(
      inputs(
          R"({"base": "xnnpack", "global": {"act_observer": {"name": "mse", "reduce_range": true}}})"),
      Contains("%x: int8 -128..127"));
  CHECK_THAT(inputs(R"({"base": "xnnpack", "global": {"is_weight_only": true}})"), !Contains("%x"));
  options.is_dynamic = true;
  CHECK_THAT(annotate(*make_quantizer("xnnpack", options), kLinear),
             Contains("%x: int8 -64..63 dynamic"));
  CHECK_THAT(annotate(*make_quantizer("x86", options), kLinear),
             Contains("%x: uint8 0..127 dynamic"));
}

TEST_CASE("reduce_range is an error where no activations are quantized, and for user-defined rows",
          "[quantizers][registry]") {
  QuantizerOptions options;
  options.reduce_range = true;
  CHECK_THROWS_WITH(make_quantizer("embedding", options),
                    "quantizer: embedding: got the option reduce_range, want one of its options: "
                    "is_dynamic, is_weight_only, weight_bits");
  const char* declared =
      R"j({"name": "npu", "specs": {"act": {"dtype": "int8", "observer": "min_max"}},
    "patterns": [{"pattern": "relu(x)", "inputs": {"x": "act"}}]})j";
  const std::string message =
      "quantizer: npu: got the option reduce_range, want one of its options: none, because its "
      "file defines everything; "
      "give its specs a narrower quant_min and quant_max";
  CHECK_THROWS_WITH(parse_quantizer(declared, "npu.json", options), message);
  const std::string list = R"({"compose": ["x86", )" + std::string(declared) + "]}";
  CHECK_THROWS_WITH(parse_quantizer(list, "list.json", options), message);
  options.is_weight_only = true;
  CHECK_THROWS_WITH(
      make_quantizer("x86", options),
      "quantizer: reduce_range: got true together with is_weight_only, want one of them; "
      "activations stay float");
}

TEST_CASE("options override what configurations say", "[quantizers][registry]") {
  QuantizerOptions options;
  options.is_per_channel = false;
  CHECK_THAT(annotate(*make_quantizer("xnnpack", options), kLinear),
             Contains("per_tensor_symmetric weight_mse"));
  options.is_dynamic = true;
  CHECK_THAT(annotate(*make_quantizer("xnnpack", options), kLinear),
             Contains("dynamic ASYMMETRIC per_token affine_placeholder"));
  options.compat = Compat::kTorchao;
  CHECK_THAT(annotate(*make_quantizer("xnnpack", options), kLinear),
             Contains("per_tensor_affine dynamic placeholder"));
}

TEST_CASE("a row decides over the options of the command, which decide over global",
          "[quantizers][json]") {
  QuantizerOptions options;
  options.is_weight_only = true;
  options.weight_bits = 4;
  options.group_size = 2;
  for (const char* base : {"xnnpack", "x86"}) {
    const auto annotated = [&](const std::string& rest) {
      return annotate(*parse_quantizer(R"({"base": ")" + std::string(base) + R"(", )" + rest + "}",
                                       "q.json", options),
                      kLinear);
    };
    CHECK_THAT(annotated(R"("global": {"weight_bits": 8})"), Contains("%w: int8 -8..7 "));
    CHECK_THAT(annotated(R"("op_type": {"linear": {"weight_bits": 8, "group_size": 0}})"),
               Contains("..127 per_") && !Contains("per_group"));
  }
}

TEST_CASE("16 bits of the command leave rows of 8-bit activations alone", "[quantizers][json]") {
  QuantizerOptions options;
  options.weight_bits = options.activation_bits = 16;
  for (const char* row :
       {R"({"activation_bits": 8})", R"({"is_dynamic": true})", R"({"is_weight_only": true})"}) {
    CAPTURE(row);
    CHECK_THAT(annotate(*parse_quantizer(R"({"base": "xnnpack", "op_type": {"linear": )" +
                                             std::string(row) + "}}",
                                         "q.json", options),
                        kLinear),
               Contains("%w: int8 ") && !Contains("int16"));
  }
}

}  // namespace octet::test_command_options
