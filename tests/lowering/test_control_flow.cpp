// Branches and loops of a graph: each body becomes a program, and the results equal the
// interpreter's.
#include <catch2/catch.hpp>

#include "backends/reference/reference_backend.h"
#include "lowering/lower.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_control_flow {
namespace {

using Catch::Matchers::Contains;

const char* const kCond =
    R"(graph(%w = param "w": f32[3,4], %v = param "v": f32[3,4], %x: f32[2,4]):
  %sum: f32[] = aten.sum.default(%x)
  %yes: b8[] = aten.gt.Scalar(%sum, 0.0)
  [%y: f32[2,3], %z: f32[2,4]] = higher_order.cond(%yes, graph "yes" (%a: f32[2,4], %b: f32[3,4], %c: f32[3,4]):
    %l: f32[2,3] = aten.linear.default(%a, %b)
    %r: f32[2,3] = aten.relu.default(%l)
    return (%r, %a)
  , graph "no" (%a: f32[2,4], %b: f32[3,4], %c: f32[3,4]):
    %l: f32[2,3] = aten.linear.default(%a, %c)
    %n: f32[2,4] = aten.neg.default(%a)
    return (%l, %n)
  , [%x, %w, %v])
  return (%y, %z))";

const char* const kWhile = R"(graph(%w = param "w": f32[4,4], %n: i64[], %x: f32[2,4]):
  [%count: i64[], %y: f32[2,4]] = higher_order.while_loop(graph "condition" (%i: i64[], %a: f32[2,4], %b: f32[4,4]):
    %less: b8[] = aten.lt.Scalar(%i, 3)
    return (%less)
  , graph "body" (%i: i64[], %a: f32[2,4], %b: f32[4,4]):
    %next: i64[] = aten.add.Tensor(%i, 1)
    %l: f32[2,4] = aten.linear.default(%a, %b)
    %r: f32[2,4] = aten.tanh.default(%l)
    return (%next, %r)
  , [%n, %x], [%w])
  return (%count, %y))";

const char* const kScan =
    R"(graph(%w = param "w": f32[4,4], %h = buffer "h": f32[2,4], %xs: f32[5,2,4]):
  [%last: f32[2,4], %all: f32[5,2,4]] = higher_order.scan(graph "step" (%s: f32[2,4], %a: f32[2,4], %b: f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%s, %b)
    %sum: f32[2,4] = aten.add.Tensor(%l, %a)
    %r: f32[2,4] = aten.tanh.default(%sum)
    %c: f32[2,4] = aten.clone.default(%r)
    return (%r, %c)
  , [%h], [%xs], [%w])
  return (%last, %all))";

const char* const kMap = R"(graph(%xs: f32[5,2,4], %b: f32[4]):
  [%all: f32[5,4]] = higher_order.map_impl(graph "step" (%a: f32[2,4], %c: f32[4]):
    %sum: f32[2,4] = aten.add.Tensor(%a, %c)
    %r: f32[4] = aten.amax.default(%sum, [0])
    return (%r)
  , [%xs], [%b])
  return (%all))";

}  // namespace

TEST_CASE("cond runs one of two programs", "[lowering][control_flow]") {
  CHECK(greatest_in_four_runs(kCond) < 1e-6);
  const Program program = reference_program(make_graph(kCond));
  REQUIRE(program.bodies.size() == 2);
  // Each branch has the one weight that it reads, as a constant.
  CHECK(program.bodies[0].inputs == std::vector<int>{0, -1, -1});
  CHECK(program.ops.back().inputs.size() == 4);
  CHECK(program.ops.back().inputs[2] == -1);
  CHECK_THAT(to_text(program), Contains("control   y: f32[2,3], z: f32[2,4] = cond(yes b8[], x "
                                        "f32[2,4], none, none) bodies=[0,1]"));
  CHECK_THAT(explain(program), Contains("  body 1:\n"));
}

TEST_CASE("while_loop carries values until its condition ends it", "[lowering][control_flow]") {
  CHECK(greatest_in_four_runs(kWhile) < 1e-6);
}

TEST_CASE("scan and map walk along rows", "[lowering][control_flow]") {
  CHECK(greatest_in_four_runs(kScan) < 1e-6);
  CHECK(greatest_in_four_runs(kMap) == 0);
}

TEST_CASE("bodies may be nested", "[lowering][control_flow]") {
  CHECK(greatest_in_four_runs(R"(graph(%w = param "w": f32[4], %n: i64[], %x: f32[4]):
  [%count: i64[], %y: f32[4]] = higher_order.while_loop(graph "condition" (%i: i64[], %a: f32[4], %b: f32[4]):
    %less: b8[] = aten.lt.Scalar(%i, 4)
    return (%less)
  , graph "body" (%i: i64[], %a: f32[4], %b: f32[4]):
    %next: i64[] = aten.add.Tensor(%i, 1)
    %odd: i64[] = aten.remainder.Scalar(%i, 2)
    %is_odd: b8[] = aten.ne.Scalar(%odd, 0)
    [%z: f32[4]] = higher_order.cond(%is_odd, graph "odd" (%c: f32[4], %d: f32[4]):
      %s: f32[4] = aten.add.Tensor(%c, %d)
      return (%s)
    , graph "even" (%c: f32[4], %d: f32[4]):
      %s: f32[4] = aten.mul.Tensor(%c, 2.0)
      return (%s)
    , [%a, %b])
    return (%next, %z)
  , [%n, %x], [%w])
  return (%count, %y))") < 1e-6);
}

TEST_CASE("parts without gradients are a part of the program", "[lowering][control_flow]") {
  const char* const text = R"(graph(%w = param "w": f32[4,4], %x: f32[2,4]):
  %l: f32[2,4] = aten.linear.default(%x, %w)
  [%y: f32[2,4], %z: f32[2,4]] = higher_order.wrap_with_set_grad_enabled(False, graph "part" (%a: f32[2,4], %b: f32[2,4]):
    %l: f32[2,4] = aten.add.Tensor(%a, %b)
    [%m: f32[2,4]] = higher_order.invoke_subgraph(graph "inner" (%c: f32[2,4]):
      %l: f32[2,4] = aten.neg.default(%c)
      return (%l)
    , "inner", %l)
    return (%m, %a)
  , %l, %x)
  %sum: f32[2,4] = aten.add.Tensor(%y, %z)
  return (%sum))";
  CHECK(greatest_in_four_runs(text) < 1e-6);
  CHECK(reference_program(make_graph(text)).bodies.empty());
}

TEST_CASE("quantized bodies compute on integers", "[lowering][control_flow]") {
  const char* const text =
      R"(graph(%w = param "w": i8[4,4], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %xs: f32[3,2,4]):
  [%all: f32[3,2,4]] = higher_order.map_impl(graph "step" (%a: f32[2,4], %b: i8[4,4], %c: f32[4], %d: i64[4]):
    %q: i8[2,4] = quantized_decomposed.quantize_per_tensor.default(%a, 0.01, 3, -128, 127, i8)
    %x: f32[2,4] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 3, -128, 127, i8)
    %w: f32[4,4] = quantized_decomposed.dequantize_per_channel.default(%b, %c, %d, 0, -127, 127, i8)
    %l: f32[2,4] = aten.linear.default(%x, %w)
    return (%l)
  , [%xs], [%w, %s, %z])
  return (%all))";
  CHECK(greatest_in_four_runs(text) < 1e-4);
  const Program program = reference_program(make_graph(text));
  CHECK_THAT(to_text(program.bodies[0]), Contains("w i8[4,4] per-channel"));
}

TEST_CASE("loops whose shapes or values cannot be carried are refused by name",
          "[lowering][control_flow]") {
  CHECK_THAT(error_of(make_graph(R"(graph(%n: i64[], %x: f32[2,4]):
  [%count: i64[], %y: f32[2,4]] = higher_order.while_loop(graph "condition" (%i: i64[], %a: f32[2,4]):
    %less: b8[] = aten.lt.Scalar(%i, 3)
    return (%less)
  , graph "body" (%i: i64[], %a: f32[2,4]):
    %next: i64[] = aten.add.Tensor(%i, 1)
    %r: f32[2,2] = aten.slice.Tensor(%a, 1, 0, 2)
    return (%next, %r)
  , [%n, %x], [])
  return (%count, %y))")),
             Contains("output 1 of a body (r) is f32[2, 2], want f32[2, 4]"));
  const Graph writes = make_graph(R"(graph(%yes: b8[], %x: f32[4]):
  [%y: f32[4]] = higher_order.cond(%yes, graph "yes" (%a: f32[4]):
    %r: f32[4] = aten.add_.Tensor(%a, 1.0)
    return (%r)
  , graph "no" (%a: f32[4]):
    return (%a)
  , [%x])
  return (%y))");
  CHECK_THAT(error_of(writes), Contains("writes into %a, an input of the program"));
  Report report;
  const Program whole = lower(writes, ReferenceSupport(), {.fallback = Fallback::kTorch}, report);
  CHECK(whole.ops[0].kind == "aten");  // LibTorch runs the call with its bodies
  CHECK(whole.bodies.empty());
}

}  // namespace octet::test_control_flow
