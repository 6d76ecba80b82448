// Compares ops for order, places, signs and losses with ATen.
#include <string>

#include <catch2/catch.hpp>

#include "tests/lowering/call_rows.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_order_and_places {

// clang-format off
TEST_CASE("elements by their order", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[3,7]", "%y: f32[3], %i: i64[3]", "aten.kthvalue.default(%x, 3)", "%y, %i"},
      {"%x: f32[3,7]", "%y: f32[1,7], %i: i64[1,7]", "aten.kthvalue.default(%x, 2, 0, True)", "%y, %i"},
      {"%x: f32[3,7]", "%y: f32[]", "aten.median.default(%x)"},
      {"%x: f32[3,8]", "%y: f32[3], %i: i64[3]", "aten.median.dim(%x, 1)", "%y, %i"},
      {"%x: f32[3,8]", "%y: f32[]", "aten.nanmedian.default(%x)"},
      {"%x: f32[3,8]", "%y: f32[3,1], %i: i64[3,1]", "aten.nanmedian.dim(%x, -1, True)", "%y, %i"},
      {"%x: f32[3,8]", "%y: f32[3], %z: f32[3]", "aten.aminmax.default(%x, dim=1)", "%y, %z"},
      {"%x: f32[3,8]", "%y: f32[], %z: f32[]", "aten.aminmax.default(%x)", "%y, %z"},
      {"%x: i64[2,5], %z: i64[3]", "%y: b8[2,5]", "aten.isin.Tensor_Tensor(%x, %z)"},
      {"%x: i64[2,5]", "%y: b8[2,5]", "aten.isin.Tensor_Scalar(%x, 1, invert=True)"},
      {"%x: f32[2,5], %s = param \"s\": f32[1]", "%y: i64[2,5]", "aten.searchsorted.Tensor(%s, %x)"},
      {"%x: f32[2,5], %z: f32[2,1]", "%y: i64[2,5]", "aten.searchsorted.Tensor(%z, %x, right=True)"},
      {"%x: f32[]", "%y: f32[], %i: i64[]", "aten.topk.default(%x, 1)", "%y, %i"},
      {"%x: f32[]", "%y: f32[], %i: i64[]", "aten.cummax.default(%x, 0)", "%y, %i"},
  });
}

TEST_CASE("the order next to NaN", "[lowering][decompositions]") {
  // 0 / 0 where the input is not above zero
  const auto difference = [](const char* results, const char* call, const char* returns) {
    const std::string text = std::string("graph(%x: f32[5,9]):\n"
                                         "      %a: f32[5,9] = aten.relu.default(%x)\n"
                                         "      %n: f32[5,9] = aten.div.Tensor(%a, %a)\n"
                                         "      %p: f32[5,9] = aten.mul.Tensor(%n, %x)\n      ") +
                             results + " = " + call + "\n      return (" + returns + ")";
    return compare_with_interpreter(make_graph(text)).greatest;
  };
  CHECK(difference("%y: f32[5], %i: i64[5]", "aten.nanmedian.dim(%p, 1)", "%y, %i") < 1e-6);
  CHECK(difference("%m: f32[5], %i: i64[5]", "aten.median.dim(%p, 1)\n      %y: b8[5] = aten.isnan.default(%m)", "%y, %i") < 1e-6);
  CHECK(difference("%y: f32[5,9]", "aten.fmax.default(%p, %a)", "%y") < 1e-6);
  CHECK(difference("%y: f32[9]", "aten.nansum.default(%p, [0])", "%y") < 1e-6);
}

TEST_CASE("diagonals and views of memory", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[2,4,5]", "%y: f32[2,4]", "aten.diagonal.default(%x, 1, 1, 2)"},
      {"%x: f32[4,5]", "%y: f32[]", "aten.trace.default(%x)"},
      {"%x: f32[2,4,5], %z: f32[2,3]", "%y: f32[2,4,5]", "aten.diagonal_scatter.default(%x, %z, -1, 1, 2)"},
      {"%x: f32[5,4,2], %z: f32[2,4]", "%y: f32[5,4,2]", "aten.diagonal_scatter.default(%x, %z, 0, 1, 0)"},
      {"%x: f32[4,6]", "%y: f32[3,2]", "aten.as_strided.default(%x, [3, 2], [2, 7], 1)"},
      {"%x: f32[4,6], %z: f32[3,2]", "%y: f32[4,6]", "aten.as_strided_scatter.default(%x, %z, [3, 2], [2, 7], 1)"},
      {"%x: f32[]", "%y: f32[1]", "aten.unfold.default(%x, 0, 1, 1)"},
      {"%x: f32[2,3], %z: f32[2,3]", "%y: f32[2,3]", "aten.linalg_cross.default(%x, %z)"},
      {"%x: f32[3,4], %z: f32[3,4]", "%y: f32[3,4]", "aten.linalg_cross.default(%x, %z, dim=0)"},
  });
}

TEST_CASE("elements where a mask is set, and by places in a row", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[3,4], %m: b8[3,4], %z: f32[12]", "%y: f32[3,4]", "aten.masked_scatter.default(%x, %m, %z)"},
      {"%x: f32[3,4], %m: b8[4], %z: f32[4,3]", "%y: f32[3,4]", "aten.masked_scatter.default(%x, %m, %z)"},
      {"%x: f32[3,4], %i: i64[2,2]", "%y: f32[2,2]", "aten.take.default(%x, %i)"},
      {"%x: f32[3,4], %i: i64[1,1], %z: f32[1,1]", "%y: f32[3,4]", "aten.put.default(%x, %i, %z, True)"},
      {"%x: f32[3,4], %i: i64[2], %z: f32[3,2]", "%y: f32[3,4]", "aten.index_reduce.default(%x, 1, %i, %z, \"amax\")"},
      {"%x: f32[3,4], %i: i64[2], %z: f32[2,4]", "%y: f32[3,4]", "aten.index_reduce.default(%x, 0, %i, %z, \"prod\", include_self=False)"},
      {"%x: f32[], %i: i64[1]", "%y: f32[]", "aten.index_select.default(%x, 0, %i)"},
  });
}

TEST_CASE("largest elements of windows and where they are", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[2,3,9]", "%y: f32[2,3,4], %i: i64[2,3,4]", "aten.max_pool1d_with_indices.default(%x, [3], [2])", "%y, %i"},
      {"%x: f32[2,3,8,9]", "%y: f32[2,3,4,5], %i: i64[2,3,4,5]", "aten.max_pool2d_with_indices.default(%x, [3, 2], [2, 2], [1, 1])", "%y, %i"},
      {"%x: f32[3,8,9]", "%y: f32[3,4,5], %i: i64[3,4,5]", "aten.max_pool2d_with_indices.default(%x, [2, 3], [2, 1], [0, 0], [1, 2])", "%y, %i"},
      {"%x: f32[1,2,5,6]", "%y: f32[1,2,3,3], %i: i64[1,2,3,3]", "aten.max_pool2d_with_indices.default(%x, [2, 2], [2, 2], [0, 0], [1, 1], True)", "%y, %i"},
      {"%x: f32[1,2,4,5,6]", "%y: f32[1,2,2,2,3], %i: i64[1,2,2,2,3]", "aten.max_pool3d_with_indices.default(%x, [2, 2, 2])", "%y, %i"},
      {"%x: f32[2,3,7,8]", "%y: f32[2,3,3,5], %i: i64[2,3,3,5]", "aten.adaptive_max_pool2d.default(%x, [3, 5])", "%y, %i"},
      {"%x: f32[2,3,7]", "%y: f32[2,3,4], %i: i64[2,3,4]", "aten.adaptive_max_pool1d.default(%x, [4])", "%y, %i"},
      {"%x: f32[1,1,1,1], %i: i64[1,1,1,1]", "%y: f32[1,1,2,2]", "aten.max_unpool2d.default(%x, %i, [2, 2])"},
  });
}

TEST_CASE("signs, infinities and logarithms of sums", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[2,5], %z: f32[5]", "%y: f32[2,5]", "aten.copysign.Tensor(%x, %z)"},
      {"%x: f32[2,5]", "%y: b8[2,5]", "aten.signbit.default(%x)"},
      {"%x: f32[2,5], %z: f32[5]", "%y: f32[2,5]", "aten.fmax.default(%x, %z)"},
      {"%x: f32[2,5], %z: f32[5]", "%y: f32[2,5]", "aten.fmin.default(%x, %z)"},
      {"%x: i64[2,5], %z: i64[5]", "%y: i64[2,5]", "aten.heaviside.default(%x, %z)"},
      {"%x: f32[2,5], %z: f32[5]", "%y: f32[2,5]", "aten.hypot.default(%x, %z)"},
      {"%x: f32[2,5], %z: f32[5]", "%y: f32[2,5]", "aten.logaddexp.default(%x, %z)"},
      {"%x: f32[2,5], %z: f32[5]", "%y: f32[2,5]", "aten.logaddexp2.default(%x, %z)"},
      {"%x: f32[2,5]", "%y: f32[2,5]", "aten.sinc.default(%x)"},
      {"%x: f32[2,5]", "%y: b8[2,5]", "aten.isposinf.default(%x)"},
      {"%x: f32[2,5]", "%y: b8[2,5]", "aten.isneginf.default(%x)"},
      {"%x: f32[2,5]", "%y: f32[2,5]", "aten.angle.default(%x)"},
      {"%x: f32[2,5]", "%y: f32[5]", "aten.nansum.default(%x, [0])"},
      {"%x: f32[2,5]", "%y: f32[2,1]", "aten.nanmean.default(%x, [1], True)"},
  });
}

TEST_CASE("losses", "[lowering][decompositions]") {
  check_rows({
      {"%x: f32[4,3], %t: i64[4]", "%y: f32[], %w: f32[]", "aten.nll_loss_forward.default(%x, %t, None, 1, -100)", "%y, %w"},
      {"%x: f32[4,3], %t: i64[4], %g: f32[3]", "%y: f32[], %w: f32[]", "aten.nll_loss_forward.default(%x, %t, %g, 2, -100)", "%y, %w"},
      {"%x: f32[4,3], %t: i64[4]", "%y: f32[4], %w: f32[]", "aten.nll_loss_forward.default(%x, %t, None, 0, 1)"},
      {"%x: f32[2,3,4,5], %t: i64[2,4,5]", "%y: f32[], %w: f32[]", "aten.nll_loss2d_forward.default(%x, %t, None, 1, -100)"},
      {"%x: f32[2,5], %t: f32[2,5]", "%y: f32[]", "aten.mse_loss.default(%x, %t)"},
      {"%x: f32[2,5], %t: f32[2,5]", "%y: f32[2,5]", "aten.huber_loss.default(%x, %t, 0, 0.3)"},
      {"%x: f32[2,5], %t: f32[2,5]", "%y: f32[]", "aten.smooth_l1_loss.default(%x, %t, 2, 0.5)"},
      {"%x: f32[2,5], %t: f32[2,5]", "%y: f32[]", "aten.soft_margin_loss.default(%x, %t)"},
  });
}
// clang-format on

}  // namespace octet::test_order_and_places
