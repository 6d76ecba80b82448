// In-place writes into views reach later readers or are refused; none is lost.
#include <array>
#include <string>

#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_writes {
using Catch::Matchers::Contains;

namespace {

// %c is a copy, %v a view of it, which is written; the copy is read.
Graph written(const std::string& shape, const std::string& view) {
  return make_graph(
      "graph(%x: f32[4,6]):\n      %c: f32[4,6] = aten.clone.default(%x)\n      %v: f32" + shape +
      " = " + view + "\n      %w: f32" + shape + " = aten.mul_.Tensor(%v, 3.0)\n      return (%c)");
}

}  // namespace

TEST_CASE("writes into views of memory reach it", "[lowering][writes]") {
  const auto difference = [](const std::string& shape, const std::string& view) {
    return compare_with_interpreter(written(shape, view)).greatest;
  };
  CHECK(difference("[2,2]", "aten.as_strided.default(%c, [2, 2], [6, 2], 1)") < 1e-6);
  CHECK(difference("[4,6,1]", "aten.atleast_3d.default(%c)") < 1e-6);
  CHECK(difference("[4,6]", "aten.feature_dropout.default(%c, 0.5, False)") < 1e-6);
  CHECK(difference("[4,6]", "aten.lift_fresh.default(%c)") < 1e-6);
}

TEST_CASE("a view of a view has what is written to the memory", "[lowering][writes]") {
  Graph graph = make_graph(R"(graph(%x: f32[4,6]):
      %c: f32[4,6] = aten.clone.default(%x)
      %v: f32[24] = aten.view.default(%c, [24])
      %s: f32[4] = aten.slice.Tensor(%v, 0, 5, 9)
      %w: f32[4,6] = aten.mul_.Tensor(%c, 3.0)
      %y: f32[4] = aten.neg.default(%s)
      return (%y))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-6);
}

TEST_CASE("a cast has separate memory", "[lowering][writes]") {
  Graph before = make_graph(R"(graph(%x: f32[4]):
      %c: f32[4] = aten.clone.default(%x)
      %d: f64[4] = aten.to.dtype(%c, f64)
      %w: f32[4] = aten.mul_.Tensor(%c, 3.0)
      %y: f32[4] = aten.to.dtype(%d, f32)
      return (%y))");
  CHECK(compare_with_interpreter(before).greatest < 1e-6);
  Graph behind = make_graph(R"(graph(%x: f32[4]):
      %c: f32[4] = aten.clone.default(%x)
      %d: f64[4] = aten.to.dtype(%c, f64)
      %w: f64[4] = aten.mul_.Tensor(%d, 3.0)
      %y: f32[4] = aten.to.dtype(%d, f32)
      return (%y, %c))");
  CHECK(compare_with_interpreter(behind).greatest < 1e-6);
}

TEST_CASE("writes into views that cannot be inverted are refused", "[lowering][writes]") {
  for (const auto& [shape, view] : {
           std::array{"[2,2]", "aten.as_strided.default(%c, [2, 2], [1, 1], 0)"},
           std::array{"[6,4]", "aten.numpy_T.default(%c)"},
           std::array{"[6,4]", "aten.adjoint.default(%c)"},
           std::array{"[6,4]", "aten.einsum.default(\"ij->ji\", [%c])"},
       }) {
    INFO(view);
    CHECK_THAT(error_of(written(shape, view)), Contains("writes into a view of %v"));
  }
}

TEST_CASE("an offset of a view of memory counts from the memory's begin", "[lowering][writes]") {
  Graph graph = make_graph(R"(graph(%x: f32[4,6]):
      %s: f32[3,6] = aten.slice.Tensor(%x, 0, 1, 4)
      %y: f32[2,2] = aten.as_strided.default(%s, [2, 2], [6, 1], 7)
      return (%y))");
  graph.nodes().front()->output()->meta->storage_offset.value = 6;
  CHECK(compare_with_interpreter(graph).greatest == 0);
}

TEST_CASE("bytes do not become another dtype", "[lowering][writes]") {
  CHECK_THAT(error_of(make_graph("graph(%x: f32[4]):\n      %y: i32[4] = aten.view.dtype(%x, i32)\n"
                                 "      return (%y)")),
             Contains("of the bytes of another dtype"));
  CHECK(compare_with_interpreter(
            make_graph("graph(%x: i32[4]):\n      %n: i32[4] = aten.neg.default(%x)\n"
                       "      %b: i8[4] = aten.to.dtype(%n, i8)\n"
                       "      %y: u8[4] = aten.view.dtype(%b, u8)\n      return (%y)"))
            .greatest == 0);
}

}  // namespace octet::test_writes
