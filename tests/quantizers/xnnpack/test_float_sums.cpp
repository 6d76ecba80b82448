// The residual stream of transformers: sums that norms read stay float.
#include <catch2/catch.hpp>

#include "quantizers/annotate_text.h"

namespace octet::test_float_sums {
namespace {

using test::annotate_text;
using test::reason_for;

constexpr const char* kReason =
    "only norms and float sums read it, and one scale would not fit all its channels";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// As in BERT: the norm follows the sum.
const char* const kBehind =
    R"(graph(%v = param "v": f32[8,8], %w = param "w": f32[8,8], %x: f32[1,4,8]):
  %l: f32[1,4,8] = aten.linear.default(%x, %w)
  %s: f32[1,4,8] = aten.add.Tensor(%l, %x)
  %n: f32[1,4,8] = aten.layer_norm.default(%s, [8])
  %y: f32[1,4,8] = aten.linear.default(%n, %v)
  return (%y))";

// As in ViT: the sum continues beside the norm.
const char* const kBeside =
    R"(graph(%v = param "v": f32[8,8], %w = param "w": f32[8,8], %x: f32[1,4,8]):
  %l: f32[1,4,8] = aten.linear.default(%x, %w)
  %r: f32[4,8] = aten.view.default(%l, [4,8])
  %u: f32[1,4,8] = aten.view.default(%r, [1,4,8])
  %s: f32[1,4,8] = aten.add.Tensor(%x, %u)
  %n: f32[1,4,8] = aten.layer_norm.default(%s, [8])
  %m: f32[1,4,8] = aten.linear.default(%n, %v)
  %t: f32[1,4,8] = aten.add.Tensor(%s, %m)
  %o: f32[1,4,8] = aten.layer_norm.default(%t, [8])
  return (%o))";

}  // namespace

TEST_CASE("a sum that a norm reads stays float, and the layer before it gives floats",
          "[quantizers][xnnpack][float_sums]") {
  const test::Annotated result = annotate_text(kBehind);
  CHECK(result.text ==
        "%l [linear]: %x: ACT, %w: WEIGHT\n"
        "%y [linear]: %n: ACT, %v: WEIGHT => ACT\n");
  CHECK(reason_for(result.report, "s") == kReason);
  CHECK(annotate_text(kBehind, Compat::kTorchao).text.find("%s [add]") != std::string::npos);
}

TEST_CASE("sums that norms and further such sums read stay float, views in between or not",
          "[quantizers][xnnpack][float_sums]") {
  const test::Annotated result = annotate_text(kBeside);
  CHECK(result.text ==
        "%l [linear]: %x: ACT, %w: WEIGHT\n"
        "%m [linear]: %n: ACT, %v: WEIGHT\n");
  CHECK(reason_for(result.report, "s") == kReason);
  CHECK(reason_for(result.report, "t") == kReason);
}

TEST_CASE("a sum that a quantized op or the caller reads too is quantized",
          "[quantizers][xnnpack][float_sums]") {
  CHECK(annotate_text(replaced(kBehind, "return (%y)", "return (%y, %s)")).text.find("%s [add]") !=
        std::string::npos);
  CHECK(annotate_text(replaced(kBehind, "linear.default(%n, %v)", "linear.default(%s, %v)"))
            .text.find("%s [add]") != std::string::npos);
}

}  // namespace octet::test_float_sums
