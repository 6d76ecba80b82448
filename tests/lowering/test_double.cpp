// Programs of float64 are computed in double on the reference backend.
#include <string>

#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_double {
namespace {

// On %d, thirds in double that float does not hold.
double difference(const std::string& shape, const std::string& call, const std::string& result) {
  return compare_with_interpreter(make_graph("graph(%x: f32[" + shape + "]):\n      %w: f64[" +
                                             shape + "] = aten.to.dtype(%x, f64)\n      %d: f64[" +
                                             shape +
                                             "] = aten.div.Tensor(%w, 3.0)\n      %y: f64[" +
                                             result + "] = " + call + "\n      %s: f64[" + result +
                                             "] = aten.mul.Tensor(%y, 0.1)\n      return (%s)"))
      .greatest;
}

}  // namespace

TEST_CASE("products of float64 are computed in double", "[lowering][double]") {
  CHECK(difference("4,4", "aten.mm.default(%d, %d)", "4,4") < 1e-14);
  CHECK(difference("4,4", "aten.linear.default(%d, %d)", "4,4") < 1e-14);
  CHECK(difference("4,4", "aten.addmm.default(%d, %d, %d)", "4,4") < 1e-14);
  CHECK(difference("3,3,3", "aten.conv1d.default(%d, %d)", "3,3,1") < 1e-14);
  CHECK(difference("3,3,3", "aten.conv_transpose1d.default(%d, %d)", "3,3,5") < 1e-14);
  const std::string attention = "aten.scaled_dot_product_attention.default(%d, %d, %d";
  CHECK(difference("1,2,4,3", attention + ")", "1,2,4,3") < 1e-14);
  CHECK(difference("1,2,4,3", attention + ", None, 0.0, True)", "1,2,4,3") < 1e-14);
}

TEST_CASE("norms and pools of float64 are computed in double", "[lowering][double]") {
  CHECK(difference("2,4,6", "aten.softmax.int(%d, 1)", "2,4,6") < 1e-14);
  CHECK(difference("2,4,6", "aten.layer_norm.default(%d, [6])", "2,4,6") < 1e-12);
  CHECK(difference("2,4,6", "aten.rms_norm.default(%d, [6])", "2,4,6") < 1e-12);
  CHECK(difference("2,4,6", "aten.group_norm.default(%d, 2)", "2,4,6") < 1e-12);
  CHECK(difference("2,4,6,6", "aten.max_pool2d.default(%d, [2, 2])", "2,4,3,3") < 1e-14);
  CHECK(difference("2,4,6,6", "aten.avg_pool2d.default(%d, [2, 2])", "2,4,3,3") < 1e-14);
  CHECK(difference("2,4,6,6", "aten.adaptive_avg_pool2d.default(%d, [4, 4])", "2,4,4,4") < 1e-14);
  CHECK(difference("2,4,6,6", "aten.upsample_nearest2d.default(%d, [12, 12])", "2,4,12,12") <
        1e-14);
}

}  // namespace octet::test_double
