// Where results are in the memory of a oneDNN segment: inside of the tensor that joins them, and
// over their operands.
#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/plan.h"
#include "backends/runtime/session.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

// x -> relu, tanh; cat along `dim` of the first, the second, and once more the first when `twice`;
// y and, when `also_first`, the first are outputs.
Program joined(std::vector<int64_t> shape, int64_t dim, bool twice, bool also_first) {
  ProgramBuilder b;
  const std::vector<int> x = {b.input("x", DType::kFloat32, shape)};
  const int first = b.op("clamp", x, "first", DType::kFloat32, shape, {}, {{"min", 0.0}});
  std::vector<int> parts = {
      first, b.op("unary", x, "second", DType::kFloat32, shape, {}, {{"fn", std::string("tanh")}})};
  if (twice) parts.push_back(first);
  std::vector<int64_t> whole = shape;
  whole[static_cast<size_t>(dim)] *= static_cast<int64_t>(parts.size());
  const std::vector<int> cat = {
      b.op("cat", parts, "cat", DType::kFloat32, whole, {}, {{"dim", dim}})};
  b.output(b.op("clamp", cat, "y", DType::kFloat32, whole, {}, {{"max", 0.5}}));
  if (also_first) b.output(first);
  return b.finish();
}

int64_t copies(const Program& program) {
  const std::vector<KernelReport> kernels = Session(with_one_segment(program, "onednn")).kernels();
  return std::count_if(kernels.begin(), kernels.end(), [](const KernelReport& kernel) {
    return !kernel.ops.empty() && kernel.ops.back() == "cat";
  });
}

}  // namespace

TEST_CASE("oneDNN: what is joined is made where it ends up, when its elements lie together there",
          "[backends][onednn][tanh]") {
  const auto check = [](const Shape& shape, int64_t dim, bool lies_together) {
    for (bool twice : {false, true})
      for (bool also_first : {false, true}) {
        CAPTURE(twice, also_first, shape, dim);
        const Program program = joined(shape, dim, twice, also_first);
        CHECK(check_against_reference(program, "onednn", {random_floats(shape)}) <= 1e-6);
        CHECK(copies(program) == (lies_together ? (twice ? 1 : 0) : (twice ? 3 : 2)));
      }
  };
  check(Shape{3, 5}, 0, true);
  check(Shape{1, 4, 7}, 1, true);
  check(Shape{3, 5}, 1, false);
}

TEST_CASE("oneDNN: a function writes over what it reads, unless something reads that later",
          "[backends][onednn][tanh]") {
  const Shape shape = {6, 40};
  ProgramBuilder b;
  const std::vector<int> x = {b.input("x", DType::kFloat32, shape)};
  const auto function = [&](int of, const std::string& name, const std::string& fn) {
    const std::vector<int> inputs = {of};
    return b.op("unary", inputs, name, DType::kFloat32, shape, {}, {{"fn", fn}});
  };
  // first is read again by the sum
  const int first = function(x[0], "first", "exp"), second = function(first, "second", "tanh");
  const int third = function(second, "third", "exp");
  const std::vector<int> summands = {third, first},
                         of_sum = {b.op("add", summands, "sum", DType::kFloat32, shape)};
  b.output(b.op("softmax", of_sum, "y", DType::kFloat32, shape, {}, {{"dim", int64_t{1}}}));
  const Program program = with_one_segment(b.finish(), "onednn");
  CHECK(check_against_reference(program, "onednn", {random_floats(shape)}) <= 1e-5);

  onednn::SegmentBuilder builder(program, program.segments[0],
                                 onednn::SegmentBuilder::Purpose::kRun);
  onednn::emit_segment(builder, program, program.segments[0]);
  const onednn::OneDnnSegment compiled(builder, 1);
  std::map<std::string, bool> is_in_place;
  for (const onednn::Step& step : builder.steps()) {
    if (!step.can_be_in_place) continue;
    const auto place = [&](int kind) {
      for (const onednn::Argument& argument : step.arguments)
        if (argument.kind == kind) return argument.place;
      return kind == DNNL_ARG_SRC ? step.arguments.front().place : step.arguments.back().place;
    };
    is_in_place[step.ops.front()->name] = place(DNNL_ARG_SRC) == place(DNNL_ARG_DST);
  }
  CHECK(is_in_place ==
        std::map<std::string, bool>{
            {"first", false}, {"second", false}, {"third", true}, {"sum", true}, {"y", false}});
}

}  // namespace octet
