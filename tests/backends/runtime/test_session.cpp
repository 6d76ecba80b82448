// Sessions: checks of inputs, memory between segments, outputs that no segment makes.
#include <algorithm>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/arena_plan.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;

TEST_CASE("a session runs segments in order and plans the memory between them",
          "[backends][session]") {
  Session session(two_segments());
  const Tensor x = random_floats({2, 3});
  const std::vector<Tensor> y = session.run({x});
  REQUIRE(y.size() == 1);
  for (int i = 0; i < 6; ++i) CHECK(y[0].data<float>()[i] == Approx(-std::exp(x.data<float>()[i])));
  CHECK(session.arena_bytes() == 64);
  CHECK(session.run({x})[0].raw() != y[0].raw());
}

TEST_CASE("a session names the input that does not fit", "[backends][session]") {
  Session session(two_segments());
  CHECK_THAT(error_of([&] { session.run({}); }), Contains("got 0 inputs, want 1"));
  CHECK_THAT(error_of([&] { session.run({random_floats({3, 2})}); }),
             Contains("input 0 (x): got f32[3, 2], want f32[2, 3]"));
  CHECK_THAT(error_of([&] { session.run({Tensor()}); }), Contains("got no tensor"));
}

TEST_CASE("a program may return inputs, constants and one value twice", "[backends][session]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2});
  const int c = b.constant("c", random_floats({2}));
  const int y = b.op("add", {x, c}, "y", DType::kFloat32, {2});
  for (int index : {x, c, y, y}) b.output(index);
  Program program = b.finish();
  program.segments = {{"reference", {0}, {x}, {y}}};
  Session session(program);
  const Tensor input = random_floats({2});
  const std::vector<Tensor> outputs = session.run({input});
  REQUIRE(outputs.size() == 4);
  CHECK(outputs[0].raw() != input.raw());
  CHECK(outputs[2].raw() != outputs[3].raw());
  CHECK(outputs[2].data<float>()[1] == outputs[0].data<float>()[1] + outputs[1].data<float>()[1]);
}

TEST_CASE("a program for a backend that is not in this build is refused", "[backends][session]") {
  Program program = two_segments();
  program.segments[0].backend = "unheard_of";
  CHECK_THAT(error_of([&] { Session session(program); }),
             Contains("unheard_of: is not in this build, want one of"));
}

TEST_CASE("a program lowered for another version of a library runs", "[backends][session]") {
  const std::vector<std::string> here = backend_names();
  for (const char* const name : {"onednn", "xnnpack"}) {
    if (std::find(here.begin(), here.end(), name) == here.end()) continue;
    Program program = two_segments();
    program.segments[0].backend = name;
    program.versions[name] = "0.0.7";
    Session session(program);
    CHECK(session.run({random_floats({2, 3})}).size() == 1);
  }
}

TEST_CASE("the arena reuses memory of buffers that are dead", "[backends][session]") {
  const ArenaPlan plan = plan_arena({{100, 0, 1}, {64, 1, 2}, {100, 2, 3}, {10, 0, 3}});
  CHECK(plan.offsets[0] == plan.offsets[2]);
  CHECK(plan.bytes == 128 + 64 + 64);
}

TEST_CASE("a session runs on the caller's memory, inputs and constants among the outputs",
          "[backends][session]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2});
  const int c = b.constant("c", random_floats({2}));
  const int y = b.op("add", {x, c}, "y", DType::kFloat32, {2});
  for (int index : {y, x, c, y}) b.output(index);
  Program program = b.finish();
  program.segments = {{"reference", {0}, {x}, {y}}};
  Session session(program);
  const float input[2] = {1, 2};
  float outputs[4][2] = {};
  const void* const inputs[] = {input};
  void* const addresses[] = {outputs[0], outputs[1], outputs[2], outputs[3]};
  session.run(inputs, addresses);
  for (int i = 0; i < 2; ++i) {
    CHECK(outputs[1][i] == input[i]);
    CHECK(outputs[0][i] == input[i] + outputs[2][i]);
    CHECK(outputs[3][i] == outputs[0][i]);
  }
  CHECK_THAT(error_of([&] { session.run(std::span<const void* const>(), addresses); }),
             Contains("got 0 inputs, want 1"));
  void* const missing[] = {outputs[0], nullptr, outputs[2], outputs[3]};
  CHECK_THAT(error_of([&] { session.run(inputs, missing); }),
             Contains("output 1 (x): got no address, want that of 8 bytes"));
}

TEST_CASE("a program that needs more memory than allowed is refused before any is taken",
          "[backends][session]") {
  // three tensors, and two of them in 64 bits
  CHECK(peak_bytes(two_segments()) == 3 * 24 + 2 * 48);
  CHECK_NOTHROW(Session(two_segments(), {.memory_limit = 168}));
  CHECK_THAT(error_of([] { Session(two_segments(), {.memory_limit = 167}); }),
             Contains("needs 168 bytes at once, want at most 167; raise the limit"));
  Program huge = two_segments();
  for (ProgramTensor& tensor : huge.tensors) tensor.shape = {int64_t{1} << 30, int64_t{1} << 14};
  CHECK_THAT(error_of([&] { Session session(huge); }),
             Contains("needs 492581209243648 bytes at once"));
}

TEST_CASE(
    "ops that no segment runs, and ops that their shapes contradict, are refused on every backend",
    "[backends][session]") {
  Program program = two_segments();
  program.segments.clear();
  CHECK_THAT(error_of([&] { Session session(program); }),
             Contains("e: the program's ops are in no segment"));
  for (const std::string& backend : backend_names()) {
    Program wrong = small_conv(backend);
    wrong.tensor(wrong.ops[0].outputs[0]).shape = {1, 8, 7, 6};
    CHECK_THAT(error_of([&] { Session session(wrong); }),
               Contains("cannot run on the " + backend +
                        " backend: output shape [1, 8, 7, 6], want [1, 8, 6, 6]"));
  }
}
