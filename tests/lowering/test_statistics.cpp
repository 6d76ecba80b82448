// Compares reductions and group normalizations with the interpreter.
#include <catch2/catch.hpp>

#include "core/graph/graph.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_statistics {
namespace {

double difference(const std::string& head, const std::string& shape, const std::string& call) {
  return compare_with_interpreter(make_graph("graph(" + head + "):\n      %y: f32[" + shape +
                                             "] = " + call + "\n      return (%y)"))
      .greatest;
}

}  // namespace

TEST_CASE("reductions give what the interpreter gives", "[lowering][statistics]") {
  const std::string x = "%x: f32[2,3,4,5]";
  CHECK(difference(x, "2,5", "aten.sum.dim_IntList(%x, [1, -2])") < 1e-5);
  CHECK(difference(x, "", "aten.sum.default(%x)") < 1e-4);
  CHECK(difference(x, "2,1,4,5", "aten.amax.default(%x, [1], True)") == 0);
  CHECK(difference(x, "2,3,4", "aten.amin.default(%x, [-1])") == 0);
  CHECK(difference(x, "", "aten.max.default(%x)") == 0);
  CHECK(difference(x, "2,3,5", "aten.prod.dim_int(%x, 2)") < 1e-5);
}

TEST_CASE("a greatest element along a dimension loses its indices when nobody reads them",
          "[lowering][statistics]") {
  const std::string begin =
      "graph(%x: f32[2,3,4]):\n      %v: f32[2,4], %i: i64[2,4] = aten.max.dim(%x, 1)\n      "
      "return (";
  CHECK(compare_with_interpreter(make_graph(begin + "%v)")).greatest == 0);
  CHECK(lowered(make_graph(begin + "%v)")).find("arg_reduce") == std::string::npos);
  CHECK(compare_with_interpreter(make_graph(begin + "%v, %i)")).greatest == 0);
}

TEST_CASE("normalizations by groups give what the interpreter gives", "[lowering][statistics]") {
  const std::string parameters =
      "%w = param \"w\": f32[6], %b = param \"b\": f32[6], %x: f32[2,6,3,5]";
  CHECK(difference(parameters, "2,6,3,5", "aten.group_norm.default(%x, 2, %w, %b, 0.001)") < 1e-5);
  CHECK(difference("%x: f32[2,6,7]", "2,6,7", "aten.group_norm.default(%x, 3)") < 1e-5);
  CHECK(difference(parameters, "2,6,3,5",
                   "aten.instance_norm.default(%x, %w, %b, None, None, True, 0.1, 1e-5, False)") <
        1e-5);
}

TEST_CASE("integers after a reduction stay integers", "[lowering][statistics]") {
  CHECK(lowered(make_graph(R"(graph(%x: f32[2,3,4]):
      %q: u8[2,3,4] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 128, 0, 255, u8)
      %d: f32[2,3,4] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 128, 0, 255, u8)
      %s: f32[2,4] = aten.sum.dim_IntList(%d, [1])
      %r: f32[2,4] = aten.relu.default(%s)
      %o: u8[2,4] = quantized_decomposed.quantize_per_tensor.default(%r, 0.02, 0, 0, 255, u8)
      return (%o))")) == R"(q: u8[2,3,4] = quantize(x f32[2,3,4])
o: u8[2,4] = reduce(q u8[2,3,4]) dims=[1] fn=sum keepdim=false post_min=0
return o
)");
}

}  // namespace octet::test_statistics
