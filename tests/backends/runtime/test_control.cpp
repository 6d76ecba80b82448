// Branches and loops in a session: their results on each backend, their form in a file, and errors
// for damaged files.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "lowering/program/control.h"
#include "tests/backends/small_programs.h"

namespace octet::test_control {
namespace {

using Catch::Matchers::Contains;

Tensor flag(bool value) {
  const Tensor tensor = Tensor::zeros(DType::kBool, {});
  *tensor.data<bool>() = value;
  return tensor;
}

Tensor number(int64_t value) {
  return Tensor::from<int64_t>(DType::kInt64, {}, std::vector<int64_t>{value});
}

std::vector<float> times(const Tensor& tensor, float factor) {
  std::vector<float> values = floats_of(tensor);
  for (float& value : values) value *= factor;
  return values;
}

std::string fault(const std::function<void(Program&)>& change) {
  return fault_of(with_bodies("reference"), change);
}

ProgramTensor& body_input(Program& program, size_t body, size_t input) {
  return program.bodies[body].tensor(program.bodies[body].inputs[input]);
}

}  // namespace

TEST_CASE("branches and loops run on every backend", "[backends][control]") {
  for (const std::string& backend : backend_names()) {
    if (backend == "torch") continue;
    INFO(backend);
    Session session(with_bodies(backend));
    for (int64_t begin : {0, 2, 5}) {
      const Tensor x = random_floats({2, 3}, -1, 1, static_cast<uint32_t>(begin) + 1);
      const std::vector<Tensor> got = session.run({flag(begin == 2), x, number(begin)});
      CHECK(floats_of(got[0]) == times(x, begin == 2 ? 2.0f : -1.0f));
      CHECK(got[1].data<int64_t>()[0] == std::max<int64_t>(begin, 3));
      CHECK(floats_of(got[2]) == times(x, begin == 0 ? 8.0f : begin == 2 ? 2.0f : 1.0f));
      const std::vector<float> rows = floats_of(x), sums = floats_of(got[4]);
      for (size_t k = 0; k < 3; ++k) {
        CHECK(sums[k] == rows[k]);
        CHECK(sums[3 + k] == rows[k] + rows[3 + k]);
        CHECK(floats_of(got[3])[k] == sums[3 + k]);
      }
    }
    const Tensor x = random_floats({2, 3});
    session.time_kernels(true);
    session.run({flag(true), x, number(0)});
    CHECK(session.kernels().size() >= 5);
  }
}

TEST_CASE("each byte of a bool but 0 is true, in what a run is given", "[backends][control]") {
  const Tensor x = random_floats({2, 3}), begin = number(0);
  for (const std::string& backend : backend_names()) {
    if (backend == "torch") continue;
    INFO(backend);
    Session session(with_bodies(backend));
    const std::vector<Tensor> want = session.run({flag(true), x, begin});
    for (int byte : {2, 0x7f, 0x80, 0xff}) {
      const Tensor odd = flag(false);
      *odd.raw() = static_cast<std::byte>(byte);
      CHECK(floats_of(session.run({odd, x, begin})[0]) == floats_of(want[0]));
      CHECK(*odd.raw() == static_cast<std::byte>(byte));  // the caller's
    }
  }
}

TEST_CASE("bytes of bools but 0 and 1 become 1 in masks, constants, states and outputs",
          "[backends][session]") {
  const Tensor odd = Tensor::zeros(DType::kBool, {4});
  for (size_t i = 0; i < 4; ++i) odd.raw()[i] = static_cast<std::byte>(i * 85);
  ProgramBuilder b;
  const int mask = b.input("mask", DType::kBool, {4}), x = b.input("x", DType::kFloat32, {4});
  const int fixed = b.constant("fixed", odd);
  const int state = b.state("state", DType::kBool, {4}, fixed);
  b.output(b.op("where", {mask, x, x}, "chosen", DType::kFloat32, {4}));
  b.output(b.op("cast", {fixed}, "number", DType::kInt64, {4}));
  b.output(b.op("cast", {state}, "kept", DType::kInt64, {4}));
  b.output(b.op("copy", {mask}, "same", DType::kBool, {4}));
  b.output(mask);
  b.becomes(state, mask);
  Session session(with_one_segment(b.finish(), "reference"));
  const std::vector<int64_t> want = {0, 1, 1, 1};
  for (int run = 0; run < 2; ++run) {
    const std::vector<Tensor> got = session.run({odd, random_floats({4})});
    for (size_t i = 0; i < 4; ++i) {
      CHECK(got[1].data<int64_t>()[i] == want[i]);
      CHECK(got[2].data<int64_t>()[i] == want[i]);
      CHECK(static_cast<int64_t>(got[3].raw()[i]) == want[i]);
      CHECK(static_cast<int64_t>(got[4].raw()[i]) == want[i]);
    }
  }
}

TEST_CASE("a loop that runs too often ends with an error where there is a limit",
          "[backends][control]") {
  const Tensor x = random_floats({2, 3});
  Session session(with_bodies("reference"), {.loop_limit = 4});
  CHECK_NOTHROW(session.run({flag(true), x, number(-1)}));
  CHECK_THAT(error_of([&] { session.run({flag(true), x, number(-2)}); }),
             Contains("session: count: runs more than 4 rounds; raise the loop limit"));
  CHECK_NOTHROW(session.run({flag(true), x, number(0)}));
}

TEST_CASE("what is called before a round may end the run, and leaves the session as it was",
          "[backends][control]") {
  const Tensor x = random_floats({2, 3});
  int rounds = 0, most = 3;
  Session session(with_bodies("reference"), {.before_round = [&] {
                    if (++rounds > most) throw std::runtime_error("enough");
                  }});
  CHECK_THROWS_WITH(session.run({flag(true), x, number(-9)}), "enough");
  CHECK(rounds == 4);
  rounds = 0;
  most = 100;
  CHECK_NOTHROW(session.run({flag(true), x, number(0)}));
  CHECK(rounds > 0);
}

TEST_CASE("a file with bodies says so by its version, and runs the same",
          "[backends][control][artifact]") {
  const std::string file = artifact_bytes(with_bodies("reference"));
  CHECK_THAT(file, Contains("\"version\":\"5\""));
  CHECK_THAT(file, Contains("\"body2/limit\""));
  const Program loaded = load_program(std::as_bytes(std::span(file)));
  CHECK(to_text(loaded) == to_text(with_bodies("reference")));
  CHECK_THAT(to_text(loaded), Contains("body 4:\n  input sum f32[3]\n"));
  CHECK(artifact_bytes(loaded) == file);
  const std::vector<Tensor> inputs = {flag(true), random_floats({2, 3}), number(0)};
  const std::vector<Tensor> want = Session(with_bodies("reference")).run(inputs),
                            got = Session(loaded).run(inputs);
  for (size_t i : {0, 2, 3, 4}) CHECK(floats_of(got[i]) == floats_of(want[i]));
}

TEST_CASE("bodies that do not fit their ops are refused", "[backends][control][artifact]") {
  CHECK(fault([](Program&) {}) == "none");
  CHECK_THAT(fault([](Program& p) { p.ops[0].attributes["bodies"] = ints({0}); }),
             Contains("has 1 bodies, want 2"));
  CHECK_THAT(fault([](Program& p) { p.ops[0].attributes["bodies"] = ints({0, 9}); }),
             Contains("runs body 9 of 5"));
  CHECK_THAT(fault([](Program& p) { p.ops[0].inputs[0] = p.inputs[1]; }),
             Contains("x decides, which is f32[2, 3], want one bool"));
  CHECK_THAT(fault([](Program& p) { p.ops[0].inputs.pop_back(); }),
             Contains("a body takes 1 inputs, want 0"));
  CHECK_THAT(fault([](Program& p) { p.ops[0].inputs[1] = -1; }),
             Contains("input 0 of a body is absent"));
  CHECK_THAT(fault([](Program& p) { body_input(p, 0, 0).shape = {3, 2}; }),
             Contains("input 0 of a body (x) is f32[3, 2], want f32[2, 3]"));
  CHECK_THAT(fault([](Program& p) { p.tensor(p.ops[0].outputs[0]).dtype = DType::kInt32; }),
             Contains("output 0 of a body (y) is f32[2, 3], want i32[2, 3]"));
  CHECK_THAT(fault([](Program& p) { p.bodies[0].outputs.clear(); }),
             Contains("a body returns 0 outputs, want 1"));
  CHECK_THAT(fault([](Program& p) { p.ops[1].inputs[0] = p.inputs[1]; }),
             Contains("carried input 0 (x) is f32[2, 3], want i64[]"));
  CHECK_THAT(fault([](Program& p) { p.ops[2].attributes["rows"] = int64_t{7}; }),
             Contains("carries 1 values and scans 7 of 2 inputs"));
  CHECK_THAT(fault([](Program& p) { p.ops[2].attributes["carried"] = int64_t{-1}; }),
             Contains("carries -1 values"));
  CHECK_THAT(fault([](Program& p) { p.tensor(p.ops[2].outputs[1]).shape = {4, 3}; }),
             Contains("different numbers of rows"));
  CHECK_THAT(fault([](Program& p) { p.segments[0].backend = "reference"; }),
             Contains("is in a segment of another kind"));
  CHECK_THAT(fault([](Program& p) { p.bodies[0].symbols.push_back({"s0", 1, 2, 1}); }),
             Contains("s0"));
  CHECK_THAT(fault([](Program& p) { p.bodies[0].segments[0].outputs.clear(); }),
             Contains("leaves its segment unlisted"));
  CHECK_THAT(fault([](Program& p) {
               for (size_t i = 0; i <= kDeepestBodies; ++i) {
                 Program outer = with_bodies("reference");
                 outer.bodies[0].bodies.push_back(p);
                 p = outer;
               }
             }),
             Contains("bodies are nested deeper than 8"));
}

}  // namespace octet::test_control
