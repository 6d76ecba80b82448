#include "tests/backends/runtime/limited_programs.h"

#include "backends/conformance/program_builder.h"
#include "lowering/program/control.h"

namespace octet {
namespace {

constexpr DType kF32 = DType::kFloat32;

Program expanded_max(int64_t elements) {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {1});
  const int all = b.op("expand", {x}, "all", kF32, {elements});
  b.output(
      b.op("reduce", {all}, "y", kF32, {1}, {}, {{"fn", std::string("max")}, {"keepdim", true}}));
  return with_one_segment(b.finish(), "reference");
}

// A body gets `yes` and x, because all inputs of a cond but the first go to its bodies.
Program conds_over(Program body, int count) {
  ProgramBuilder b;
  const bool takes_yes = body.inputs.size() == 2;
  const int yes = b.input("yes", DType::kBool, {});
  int x = b.input("x", kF32, {1});
  const int64_t index = b.body(std::move(body));
  std::vector<Segment> segments;
  for (int i = 0; i < count; ++i) {
    std::vector<int> inputs = {yes, x};
    if (takes_yes) inputs.insert(inputs.begin(), yes);
    const Attributes bodies = {{"bodies", ints({index, index})}};
    const int y = b.op("cond", inputs, "y" + std::to_string(i), kF32, {1}, {}, bodies);
    segments.push_back({kControl, {i}, {yes, x}, {y}});
    x = y;
  }
  b.output(x);
  Program program = b.finish();
  program.backend = "reference";
  program.segments = std::move(segments);
  return program;
}

}  // namespace

Program conds_over_one_body(int count, int64_t elements) {
  return conds_over(expanded_max(elements), count);
}

Program conds_in_conds(size_t depth, int64_t elements) {
  Program program = expanded_max(elements);
  for (size_t i = 0; i < depth; ++i) program = conds_over(std::move(program), 2);
  return program;
}

Program chain_of_segments(int count, const std::string& backend) {
  ProgramBuilder b;
  int x = b.input("x", kF32, {1});
  std::vector<Segment> segments;
  for (int i = 0; i < count; ++i) {
    const int y =
        b.op("unary", {x}, "y" + std::to_string(i), kF32, {1}, {}, {{"fn", std::string("neg")}});
    segments.push_back({backend, {i}, {x}, {y}});
    x = y;
  }
  b.output(x);
  Program program = b.finish();
  program.backend = backend;
  program.segments = std::move(segments);
  return program;
}

}  // namespace octet
