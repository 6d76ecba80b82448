// Weight-only quantization, groups of weights, and scales per token in the default modes of the
// quantizers.
#include <span>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/base/half.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "quantizers/x86/quantizer.h"

namespace octet::test_weight_only {
namespace {

using test::annotate_text;
using test::Annotated;
using test::reason_for;

Annotated annotate_with(const SymmetricOptions& options, const std::string& graph) {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  return annotate_text(graph, quantizer);
}

Annotated annotate_x86(const X86InductorOptions& options, const std::string& graph) {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config(options));
  return annotate_text(graph, quantizer);
}

std::string option_error(const SymmetricOptions& options) {
  try {
    get_symmetric_quantization_config(options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

const SymmetricOptions kWeights8 = {.is_per_channel = true, .own = {.is_weight_only = true}};
const SymmetricOptions kWeights4 = {.own = {.is_weight_only = true, .weight_bits = 4}};
const SymmetricOptions kTokens4 = {.is_dynamic = true,
                                   .own = {.is_per_token = true, .weight_bits = 4}};
const SymmetricOptions kTokens8 = {
    .is_per_channel = true, .is_dynamic = true, .own = {.is_per_token = true}};
const std::string kGroup32 = "int8 -8..7 SYMMETRIC_NO_CLIPPING_ERR per_group 32 affine_min_max";
const std::string kToken = "int8 -128..127 dynamic ASYMMETRIC per_token affine_placeholder";

const std::string kLinear =
    R"(graph(%x: f32[2,64], %w = param "w": f32[4,64], %b = param "b": f32[4]):
    %l: f32[2,4] = aten.linear.default(%x, %w, %b)
    %r: f32[2,4] = aten.relu.default(%l)
    return (%r))";
const std::string kConv = R"(graph(%x: f32[1,64,8,8], %w = param "w": f32[4,64,3,3]):
    %c: f32[1,4,6,6] = aten.conv2d.default(%x, %w)
    return (%c))";
const std::string kTransposed = R"(graph(%x: f32[1,6,8,8], %w = param "w": f32[6,4,2,2]):
    %c: f32[1,4,9,9] = aten.conv_transpose2d.input(%x, %w)
    return (%c))";
const std::string kEmbedding = R"(graph(%i: i64[2,3], %w = param "w": f32[100,64]):
    %e: f32[2,3,64] = aten.embedding.default(%w, %i)
    return (%e))";

}  // namespace

TEST_CASE("weight-only int8: one scale per output channel, activations float",
          "[quantizers][weight_only]") {
  CHECK(annotate_with(kWeights8, kLinear).text == "%l [weight_only_linear]: %w: WEIGHT\n");
  CHECK(annotate_with(kWeights8, kConv).text == "%c [weight_only_conv]: %w: WEIGHT\n");
  CHECK(annotate_with(kWeights8, kTransposed).text ==
        "%c [weight_only_conv_transpose]: %w: WEIGHT1\n");
  CHECK(annotate_with(kWeights8, kEmbedding).text == "%e [weight_only_embedding]: %w: WEIGHT\n");
}

TEST_CASE("weight-only int4: groups of 32 along the rows", "[quantizers][weight_only]") {
  CHECK(annotate_with(kWeights4, kLinear).text ==
        "%l [weight_only_linear]: %w: " + kGroup32 + "\n");
}

TEST_CASE("weight-only with 3 and 2 bits has the groups of 4 bits", "[quantizers][weight_only]") {
  for (const auto& [bits, range] : {std::pair{3, "-4..3"}, {2, "-2..1"}})
    CHECK(annotate_with({.own = {.is_weight_only = true, .weight_bits = bits}}, kLinear).text ==
          fmt::format("%l [weight_only_linear]: %w: int8 {} SYMMETRIC_NO_CLIPPING_ERR per_group 32 "
                      "affine_min_max\n",
                      range));
}

TEST_CASE("weight-only int4 keeps embedding tables and heads of their shape at 8 bits",
          "[quantizers][weight_only]") {
  const std::string decoder = R"(graph(%i: i64[2,3], %w = param "w": f32[100,64],
        %v = param "v": f32[64,64]):
    %e: f32[2,3,64] = aten.embedding.default(%w, %i)
    %l: f32[2,3,64] = aten.linear.default(%e, %v)
    %h: f32[2,3,100] = aten.linear.default(%l, %w)
    return (%h))";
  const std::string rows = "%w: int8 -127..127 SYMMETRIC_NO_CLIPPING_ERR per_group 32 affine_";
  const std::string table = rows + "min_max\n";
  const std::string groups = "%w: " + kGroup32 + "\n";
  const std::string layer = "%l [weight_only_linear]: %v: " + kGroup32 + "\n";
  SymmetricOptions options = kWeights4;
  CHECK(annotate_with(options, decoder).text ==
        "%e [weight_only_embedding]: " + table + layer + "%h [weight_only_linear]: " + table);
  options.own.search_weight_ranges = true;
  CHECK_THAT(annotate_with(options, decoder).text,
             Catch::Contains("%e [weight_only_embedding]: " + rows + "mse"));

  // rows say what they cover
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(kWeights4));
  for (const char* op : {"aten.linear", "aten.embedding"})
    quantizer.set_operator_type(op, get_symmetric_quantization_config(kWeights4));
  CHECK(annotate_text(decoder, quantizer).text ==
        "%e [weight_only_embedding]: " + groups + layer + "%h [weight_only_linear]: " + groups);
  X86InductorQuantizer x86;
  x86.set_global(get_default_x86_inductor_quantization_config(
      {.own = {.is_weight_only = true, .weight_bits = 4}}));
  CHECK_THAT(annotate_text(decoder, x86).text,
             Catch::Contains("%h [weight_only_linear]: " + table));
}

TEST_CASE("weight-only int4: a convolution has blocks of whole kernels within a group",
          "[quantizers][weight_only]") {
  CHECK(annotate_with(kWeights4, kConv).text ==
        "%c [weight_only_conv]: %w: int8 -8..7 SYMMETRIC_NO_CLIPPING_ERR per_block [1, 2, 3, 3] "
        "affine_min_max\n");
  CHECK(annotate_with(kWeights4, kTransposed).text ==
        "%c [weight_only_conv_transpose]: %w: int8 -8..7 SYMMETRIC_NO_CLIPPING_ERR per_block [6, "
        "1, 2, 2] affine_min_max\n");
}

TEST_CASE("weight-only int4: a weight stored [in, out] has its groups along the columns",
          "[quantizers][weight_only]") {
  const Annotated result = annotate_with(
      kWeights4, R"(graph(%x: f32[2,64], %w = param "w": f32[64,4], %b = param "b": f32[4]):
    %l: f32[2,4] = aten.addmm.default(%b, %x, %w)
    return (%l))");
  CHECK(result.text ==
        "%l [weight_only_addmm]: %w: int8 -8..7 SYMMETRIC_NO_CLIPPING_ERR per_block [32, 1] "
        "affine_min_max\n");
}

TEST_CASE("columns that the group size does not divide stay float, with the reason",
          "[quantizers][weight_only]") {
  const Annotated result =
      annotate_with(kWeights4, R"(graph(%x: f32[2,48], %w = param "w": f32[48,4]):
    %l: f32[2,4] = aten.mm.default(%x, %w)
    return (%l))");
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "l") ==
        "group size 32 does not divide the columns of %w, which have 48 elements");
}

TEST_CASE("weight-only int4 without groups has one scale per channel",
          "[quantizers][weight_only]") {
  SymmetricOptions options = kWeights4;
  options.is_per_channel = true;
  options.own.group_size = 0;
  CHECK(
      annotate_with(options, kLinear).text ==
      "%l [weight_only_linear]: %w: int8 -8..7 per_channel_symmetric axis 0 per_channel_min_max\n");
}

TEST_CASE("rows that the group size does not divide stay float, with the reason",
          "[quantizers][weight_only]") {
  SymmetricOptions options = kWeights4;
  options.own.group_size = 48;
  const Annotated result = annotate_with(options, kLinear);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "l") ==
        "group size 48 does not divide the rows of %w, which have 64 elements");
}

TEST_CASE("ops without weights stay float in a weight-only configuration, with the reason",
          "[quantizers][weight_only]") {
  const Annotated result = annotate_with(kWeights8, R"(graph(%x: f32[2,4], %y: f32[2,4]):
    %s: f32[2,4] = aten.add.Tensor(%x, %y)
    return (%s))");
  CHECK(reason_for(result.report, "s") ==
        "its configuration quantizes only weights, and it has none");
}

// One line "node: stage, reason" per op.
std::string entries_text(const Report& report) {
  std::string text;
  for (const ReportEntry& entry : report.entries())
    text += entry.node + ": " + entry.stage + ", " + entry.reason + "\n";
  return text;
}

TEST_CASE("what a mode leaves float by design is distinguished from what it failed to quantize",
          "[quantizers][weight_only]") {
  const std::string graph = R"(graph(%x: f32[2,48], %w = param "w": f32[4,48]):
    %h: f32[2,48] = aten.hardtanh.default(%x)
    %c: f32[2,48] = aten.cos.default(%h)
    %l: f32[2,4] = aten.linear.default(%c, %w)
    %t: f32[4,2] = aten.t.default(%l)
    %m: f32[2,2] = aten.matmul.default(%l, %t)
    return (%m))";
  SymmetricOptions options = kWeights8;
  options.own.group_size = 32;
  const std::string alone = "its configuration quantizes only weights, and it has none";
  CHECK(entries_text(annotate_with(options, graph).report) ==
        "h: mode, " + alone + "\nc: mode, " + alone +
            "\nl: annotate, group size 32 does not divide the rows of %w, which have 48 elements\n"
            "m: mode, " +
            alone + "\n");
  const std::string dynamic =
      "mode, its configuration is dynamic or of float16 weights, which is for ops with weights, "
      "and it has none\n";
  CHECK(entries_text(annotate_with(kTokens8, graph).report) ==
        "h: " + dynamic + "c: " + dynamic + "m: " + dynamic);
  CHECK(entries_text(annotate_x86({.is_dynamic = true}, graph).report) ==
        "h: " + dynamic + "c: " + dynamic +
            "m: mode, it is quantized only where its op type or module is named\n");
}

TEST_CASE("weights that are not float32 or computed stay float, with the reason",
          "[quantizers][weight_only]") {
  const Annotated half = annotate_with(kWeights8, R"(graph(%x: f16[2,4], %w = param "w": f16[4,4]):
    %l: f16[2,4] = aten.linear.default(%x, %w)
    return (%l))");
  CHECK(reason_for(half.report, "l") == "weight %w is float16, want float32");
  const Annotated computed = annotate_with(kWeights8, R"(graph(%x: f32[2,4], %w: f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%x, %w)
    return (%l))");
  CHECK(reason_for(computed.report, "l") == "weight %w is computed at run time, want a constant");
}

TEST_CASE("dynamic 8-bit activations per token with 4-bit weights per group",
          "[quantizers][dynamic]") {
  CHECK(annotate_with(kTokens4, kLinear).text ==
        "%l [linear]: %x: " + kToken + ", %w: " + kGroup32 + "\n");
}

TEST_CASE("a dynamic convolution has one scale per image", "[quantizers][dynamic]") {
  const SymmetricOptions options = {
      .is_per_channel = true, .is_dynamic = true, .own = {.is_per_token = true}};
  CHECK(annotate_with(options, kConv).text ==
        "%c [conv]: %x: int8 -128..127 dynamic ASYMMETRIC per_axis 0 affine_placeholder, %w: "
        "WEIGHT\n");
}

TEST_CASE("the X86 quantizer has weight-only and per-token configurations too",
          "[quantizers][weight_only][x86]") {
  CHECK(annotate_x86({.own = {.is_weight_only = true}}, kLinear).text ==
        "%l [weight_only_linear]: %w: WEIGHT\n");
  CHECK(annotate_x86({.own = {.is_weight_only = true, .weight_bits = 4}}, kLinear).text ==
        "%l [weight_only_linear]: %w: " + kGroup32 + "\n");
  CHECK(annotate_x86({.is_dynamic = true, .own = {.is_per_token = true}}, kLinear)
            .text.find("%x: uint8 0..255 dynamic ASYMMETRIC per_token affine_placeholder") !=
        std::string::npos);
}

TEST_CASE("weights of 16 bits belong to activations of 16 bits", "[quantizers][weight_only][x86]") {
  const OwnOptions own = {.search_weight_ranges = true, .weight_bits = 16, .activation_bits = 16};
  const std::string weight =
      "%w: int16 -32767..32767 per_channel_symmetric axis 0 "
      "per_channel_min_max";
  CHECK(annotate_x86({.own = own}, kLinear).text.find(weight) != std::string::npos);
  CHECK(annotate_with({.is_per_channel = true, .own = own}, kLinear).text.find(weight) !=
        std::string::npos);
}

TEST_CASE("options of weights that contradict each other are errors",
          "[quantizers][weight_only][error]") {
  CHECK(option_error({.own = {.weight_bits = 5}}) ==
        "quantizer: weight_bits: got 5, want 16, 8, 4, 3 or 2");
  for (const OwnOptions& own :
       {OwnOptions{.weight_bits = 16}, OwnOptions{.is_weight_only = true, .weight_bits = 16}})
    CHECK(option_error({.own = own}).find("got 16 without activation_bits 16, want both") !=
          std::string::npos);
  CHECK(option_error({.own = {.weight_bits = 16, .activation_bits = 16, .group_size = 32}}) ==
        "quantizer: group_size: got 32 together with 16-bit weights, want 0");
  CHECK(option_error({.weight_qmin = -100, .own = {.weight_bits = 16, .activation_bits = 16}}) ==
        "quantizer: weight_bits: got 16 together with weight_qmin .. weight_qmax, which narrow 8 "
        "bits; leave those out");
  CHECK(option_error({.own = {.is_weight_only = true, .group_size = -2}}) ==
        "quantizer: group_size: got -2, want 2 or more, or 0 for no groups");
  CHECK(option_error({.own = {.is_weight_only = true, .weight_bits = 4, .group_size = 0}}) ==
        "quantizer: weight_bits: 4-bit weights with one scale per tensor keep too little; want a "
        "group_size, or is_per_channel");
  CHECK(
      option_error({.is_dynamic = true, .own = {.is_weight_only = true}}) ==
      "quantizer: is_weight_only: got true together with is_dynamic, want one of them; weight-only "
      "leaves activations float");
  CHECK(option_error({.weight_qmin = -100, .own = {.is_weight_only = true, .weight_bits = 4}}) ==
        "quantizer: weight_qmin .. weight_qmax: 4-bit weights lie within -8 .. 7, got -100 .. 127");
}

TEST_CASE("weight-only drops the float weights and needs no data", "[quantizers][weight_only]") {
  for (const SymmetricOptions& options : {kWeights8, kWeights4}) {
    for (const std::string& text : {kLinear, kConv, kTransposed, kEmbedding}) {
      CAPTURE(text);
      XNNPACKQuantizer quantizer;
      quantizer.set_global(get_symmetric_quantization_config(options));
      Report report;
      ObservedGraph observed = prepare_pt2e(parse_graph(text), quantizer, report);
      observe_constants(observed);
      CHECK_FALSE(needs_calibration(observed));
      const Graph graph = convert_pt2e(std::move(observed), {}, report);
      CHECK_FALSE(graph.constants.contains("w"));
      CHECK(graph.constants.contains("_frozen_param0"));
    }
  }
}

TEST_CASE("scales of groups are floats that bfloat16 represents", "[quantizers][weight_only]") {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(kWeights4));
  Report report;
  ObservedGraph observed = prepare_pt2e(parse_graph(kLinear), quantizer, report);
  observe_constants(observed);
  const Graph graph = convert_pt2e(std::move(observed), {}, report);
  const Tensor scales = graph.constants.at("_scale0").tensor;
  REQUIRE(scales.dtype() == DType::kFloat32);
  for (float scale : std::span(scales.data<float>(), 8))
    CHECK(scale == bfloat_to_float(float_to_bfloat(scale)));
}

}  // namespace octet::test_weight_only
