// Limits of memory: what is counted before it is allocated, and what stays allocated.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "lowering/program/control.h"
#include "lowering/program/specialize.h"
#include "lowering/program/stored_constant.h"
#include "tests/backends/counted_rows.h"
#include "tests/backends/runtime/limited_programs.h"
#include "tests/backends/small_programs.h"

namespace octet::test_limits {
namespace {

using Catch::Matchers::Contains;

Tensor flag(bool value) {
  const Tensor tensor = Tensor::zeros(DType::kBool, {});
  *tensor.data<bool>() = value;
  return tensor;
}

// A session with exactly the memory that it needs, and none with a byte less.
void check_limit(const Program& program) {
  const size_t need = peak_bytes(program);
  CHECK_NOTHROW(Session(program, {.memory_limit = need}));
  CHECK_THAT(error_of([&] { Session(program, {.memory_limit = need - 1}); }),
             Contains("bytes at once, want at most"));
}

}  // namespace

TEST_CASE("a body that many ops run is counted once", "[backends][limits]") {
  const size_t elements = 1000, once = 4 * elements, scratch = 8 * (elements + 1);
  // x and the last y, the predicate and its copy
  CHECK(peak_bytes(conds_over_one_body(1, elements)) == 2 * 4 + 2 + once + scratch);
  // and y from one cond to the next
  CHECK(peak_bytes(conds_over_one_body(50, elements)) == 2 * 4 + 2 + 2 * 4 + once + scratch);
  check_limit(conds_over_one_body(50, elements));
}

TEST_CASE("bodies in bodies are counted in their number, and run", "[backends][limits]") {
  const Program program = conds_in_conds(kDeepestBodies, 8);
  CHECK(peak_bytes(program) < 500);
  check_limit(program);
  Session session(program);
  const Tensor x = random_floats({1}, 3, 3);
  CHECK(floats_of(session.run({flag(true), x})[0])[0] == 3);
}

TEST_CASE("what each segment keeps is counted, not the largest alone", "[backends][limits]") {
  ProgramBuilder b;
  int x = b.input("x", DType::kFloat32, {100});
  std::vector<Segment> segments;
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i);
    const int between =
        b.op("unary", {x}, "a" + name, DType::kFloat32, {100}, {}, {{"fn", std::string("neg")}});
    const int y = b.op("unary", {between}, "b" + name, DType::kFloat32, {100}, {},
                       {{"fn", std::string("abs")}});
    segments.push_back({"reference", {2 * i, 2 * i + 1}, {x}, {y}});
    x = y;
  }
  b.output(x);
  Program program = b.finish();
  program.segments = segments;
  // x and y; between two segments; in each; a kernel's elements in 64 bits
  CHECK(peak_bytes(program) == 400 * (2 + 2 + 6) + 2 * 800);
  check_limit(program);
}

TEST_CASE("copies of a constant count beyond the first", "[backends][limits]") {
  const auto packed = [](int times) {
    ProgramBuilder b;
    const int x = b.input("x", DType::kFloat32, {1, 64});
    const int w = b.constant("w", random_floats({64, 64}));
    int y = x;
    for (int i = 0; i < times; ++i)
      y = b.op("linear", {y, w, -1}, "y" + std::to_string(i), DType::kFloat32, {1, 64});
    b.output(y);
    return with_one_segment(b.finish(), "xnnpack");
  };
  const size_t w = 4 * 64 * 64;
  CHECK(peak_bytes(packed(1)) < w);
  CHECK(peak_bytes(packed(10)) > 9 * w);
  CHECK(peak_bytes(packed(10)) < 10 * w);
}

TEST_CASE("the table of an embedding is not counted as floats where it is read as stored",
          "[backends][limits]") {
  ProgramBuilder b;
  const int i = b.input("i", DType::kInt64, {1}),
            table = b.constant("table", stored_half(half_constant(random_floats({64, 64}))));
  const int x = b.op("embedding", {table, i}, "x", DType::kFloat32, {1, 64});
  b.output(b.op("linear", {x, table, -1}, "y", DType::kFloat32, {1, 64}));
  Program program = b.finish();
  const int y = program.outputs[0];
  program.segments = {{"reference", {0}, {i}, {x}}, {"xnnpack", {1}, {x}, {y}}};
  CHECK(peak_bytes(program) < 4 * 64 * 64);
}

TEST_CASE("compiled sizes stay as long as all of them fit into the limit", "[backends][limits]") {
  const auto count_after_three = [](size_t limit) {
    Session session(open_conv("reference"), {.memory_limit = limit});
    for (int64_t n : {1, 2, 3}) session.run({random_integers(DType::kInt8, {n, 4, 6, 6})});
    return session.compiled_count();
  };
  CHECK(count_after_three(0) == 3);
  CHECK(count_after_three(1 << 16) == 3);
  CHECK(count_after_three(peak_bytes(specialize(open_conv("reference"), {{"n", 3}}))) < 3);
}

TEST_CASE("constants of a file that lie in the same bytes are refused",
          "[backends][limits][artifact]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {16}), one = b.constant("one", random_floats({16})),
            two = b.constant("two", random_floats({16}));
  b.output(b.op("add", {b.op("add", {x, one}, "s", DType::kFloat32, {16}), two}, "y",
                DType::kFloat32, {16}));
  const std::string good = artifact_bytes(with_one_segment(b.finish(), "reference"));
  const auto error_with = [&](const std::string& offsets) {  // as long as those in the file
    std::string bytes = good;
    const size_t at = bytes.find("[64,128]");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, offsets.size(), offsets);
    return error_of(
        [&] { load_program(std::as_bytes(std::span(bytes)), {.verifies_checksum = false}); });
  };
  CHECK(error_with("[64,128]") == "no Error");
  CHECK_THAT(error_with("[0,64]  "), Contains("lies at 0..64, where it overlaps another one"));
  CHECK_THAT(error_with("[32,96] "), Contains("lies at 32..96, where it overlaps another one"));
}

TEST_CASE("a rest shares its body with no other op", "[backends][limits][counts]") {
  CHECK_THAT(fault_of(counted_rows("reference"),
                      [](Program& program) {
                        const int at = static_cast<int>(program.segments.size()) - 1;
                        const Segment last = program.segments[static_cast<size_t>(at)];
                        ProgramOp twin = program.op(last.ops.front());
                        REQUIRE(twin.kind == "rest");
                        Segment segment = last;
                        segment.outputs.clear();
                        segment.ops = {static_cast<int>(program.ops.size())};
                        for (int& index : twin.outputs) {
                          ProgramTensor tensor = program.tensor(index);
                          tensor.name += "_again";
                          tensor.role = ProgramTensor::Role::kIntermediate;
                          program.tensors.push_back(tensor);
                          index = static_cast<int>(program.tensors.size()) - 1;
                        }
                        program.ops.push_back(twin);
                        program.segments.push_back(segment);
                      }),
             Contains("body 0 is that of a rest and of another op"));
}

}  // namespace octet::test_limits
