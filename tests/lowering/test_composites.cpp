// Ops without an import row, lowered as what LibTorch composes them of.
#include <string>

#include <catch2/catch.hpp>

#include "tests/lowering/call_rows.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_composites {

// clang-format off
TEST_CASE("what LibTorch composes is lowered by its parts", "[lowering][composites]") {
  check_rows({
      {"%x: f32[3,4]", "%y: f32[3,4]", "aten.fliplr.default(%x)"},
      {"%x: f32[3,4]", "%y: f32[4,3]", "aten.rot90.default(%x)"},
      {"%x: f32[3,4]", "%y: f32[3,3]", "aten.diff.default(%x)"},
      {"%x: f32[3]", "%y: f32[3,3]", "aten.diag_embed.default(%x)"},
      {"%x: f32[3,4]", "%y: f32[4]", "aten.quantile.scalar(%x, 0.3, 0)"},
      {"%x: f32[3], %z: f32[2,2]", "%y: f32[3,5]", "aten.block_diag.default([%x, %z])"},
      {"%x: f32[4,6]", "[%y: f32[4,3], %z: f32[4,3]]", "aten.hsplit.int(%x, 2)", "%y, %z"},
      {"%a: f32[2,3], %b: f32[2,4], %w: f32[5,3,4]", "%y: f32[2,5]", "aten.bilinear.default(%a, %b, %w)"},
      {"%x: f32[4,3], %t: i64[4]", "%y: f32[]", "aten.cross_entropy_loss.default(%x, %t)"},
      {"%x: f32[2,5], %z: f32[2,5], %t: f32[2]", "%y: f32[]", "aten.cosine_embedding_loss.default(%x, %z, %t)"},
      {"%x: f32[2,5], %z: f32[2,5]", "%y: b8[2,5]", "aten.isclose.default(%x, %z)"},
      {"%x: f32[2,3]", "%y: f32[3,2]", "aten.permute_copy.default(%x, [1, 0])"},
  });
}
// clang-format on

TEST_CASE("what has no parts that are known is refused by its own name", "[lowering][composites]") {
  const auto error = [](const char* op) {
    return error_of(make_graph(std::string("graph(%x: f32[3,3]):\n      %y: f32[3,3] = aten.") +
                               op + ".default(%x)\n      return (%y)"));
  };
  CHECK(error("matrix_exp").find("y (aten.matrix_exp.default)") != std::string::npos);
  // it is composed of others, of which one (a decomposition of matrices) is not known
  CHECK(error("pinverse").find("y (aten.pinverse.default)") != std::string::npos);
}

}  // namespace octet::test_composites
