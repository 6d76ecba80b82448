// Sizes known only at run time, in a session: on each backend, in C, in a file, and in damaged
// files.
#include <limits>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "lowering/program/specialize.h"
#include "lowering/program/symbols.h"
#include "tests/backends/counted_rows.h"
#include "tests/backends/small_programs.h"

namespace octet::test_counts {
namespace {

using Catch::Matchers::Contains;

Tensor mask_of(std::vector<int> set) {
  const Tensor mask = Tensor::zeros(DType::kBool, {static_cast<int64_t>(set.size())});
  for (size_t i = 0; i < set.size(); ++i) mask.data<bool>()[i] = set[i] != 0;
  return mask;
}

// Twice the rows of x where the mask is set, then their sum.
std::vector<std::vector<float>> wanted(const Tensor& x, const Tensor& mask) {
  std::vector<float> rows, sum(3, 0);
  for (size_t i = 0; i < static_cast<size_t>(mask.numel()); ++i)
    for (size_t k = 0; mask.data<bool>()[i] && k < 3; ++k) {
      rows.push_back(2 * x.data<float>()[3 * i + k]);
      sum[k] += rows.back();
    }
  return {rows, sum};
}

void check_run(Session& session, const std::vector<int>& set) {
  const Tensor mask = mask_of(set), x = random_floats({mask.numel(), 3});
  const std::vector<std::vector<float>> want = wanted(x, mask);
  const std::vector<Tensor> got = session.run({x, mask});
  CHECK(got[0].shape() == std::vector<int64_t>{static_cast<int64_t>(want[0].size()) / 3, 3});
  CHECK(session.output_shape(0) == got[0].shape());
  CHECK(session.output_shape(1) == std::vector<int64_t>{3});
  CHECK(floats_of(got[0]) == want[0]);
  for (size_t k = 0; k < 3; ++k) CHECK(floats_of(got[1])[k] == Approx(want[1][k]).margin(1e-6));
}

std::string fault(const std::function<void(Program&)>& change) {
  return fault_of(counted_rows("reference"), change);
}

}  // namespace

TEST_CASE("nonzero says where a tensor is not 0, in order", "[backends][reference]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  b.output(b.op("nonzero", {x}, "places", DType::kInt64, {6, 2}));
  b.output(b.second_output("count", {}, DType::kInt64));
  Session session(with_one_segment(b.finish(), "reference"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Tensor> got = session.run(
      {Tensor::from<float>(DType::kFloat32, {2, 3}, std::vector<float>{0, 2, -0.0f, nan, 0, -1})});
  CHECK(got[1].data<int64_t>()[0] == 3);
  CHECK(std::vector<int64_t>(got[0].data<int64_t>(), got[0].data<int64_t>() + 12) ==
        std::vector<int64_t>{0, 1, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("a run decides how many rows there are", "[backends][counts]") {
  for (const std::string& backend : backend_names()) {
    if (backend == "torch") continue;
    INFO(backend);
    Session session(counted_rows(backend), {.cached_shapes = 2});
    for (const std::vector<int>& set : std::vector<std::vector<int>>{
             {0, 1, 1, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {1, 0, 0, 0}, {1, 0, 1, 0}})
      check_run(session, set);
    session.time_kernels(true);
    check_run(session, {1, 0, 1, 0});
    CHECK(session.kernels().size() >= 3);
    Session open(counted_rows(backend, true));
    check_run(open, {1, 0, 1, 0});
    check_run(open, {1, 1, 1, 1, 1, 0, 1, 1, 1});
    check_run(open, {0});
    check_run(open, {1});
  }
}

TEST_CASE("other sizes leave what a run decides open", "[backends][counts]") {
  const Program program = specialize(counted_rows("reference", true), {{"n", 2}});
  CHECK(program.symbols.empty());
  REQUIRE(program.bodies[0].symbols.size() == 1);
  CHECK(symbols_text(program.bodies[0]) ==
        "symbol u0 (dimension 0 of places) from 0 to 2, lowered at 2\n");
  CHECK(program.bodies[0].symbols[0].hint == 2);
  CHECK_THAT(to_text(program), Contains("chosen: f32[u0,3] = add"));
  const ShapeRange range = shape_range(program, program.tensor(program.outputs[0]));
  CHECK(range.shape == std::vector<int64_t>{-1, 3});
  CHECK(range.min == std::vector<int64_t>{0, 3});
  CHECK(range.max == std::vector<int64_t>{2, 3});
}

TEST_CASE("C: an output tells its sizes after a run", "[backends][c][counts]") {
  const std::string bytes = artifact_bytes(counted_rows("reference"));
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  INFO(octet_last_error());
  REQUIRE(model != nullptr);
  octet_tensor_info info{};
  info.size = sizeof(info);
  REQUIRE(octet_output(model, 0, &info) == OCTET_OK);
  CHECK(std::vector<int64_t>(info.shape, info.shape + 2) == std::vector<int64_t>{-1, 3});
  CHECK(std::vector<int64_t>(info.max_shape, info.max_shape + 2) == std::vector<int64_t>{4, 3});
  CHECK(info.bytes == 48);
  const Tensor x = random_floats({4, 3}), mask = mask_of({0, 1, 0, 1}),
               chosen = Tensor::zeros(DType::kFloat32, {4, 3}),
               sum = Tensor::zeros(DType::kFloat32, {3});
  const void* const inputs[] = {x.raw(), mask.raw()};
  void* const outputs[] = {chosen.raw(), sum.raw()};
  REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
  int64_t shape[2] = {};
  REQUIRE(octet_output_shape(model, 0, shape) == OCTET_OK);
  CHECK(std::vector<int64_t>(shape, shape + 2) == std::vector<int64_t>{2, 3});
  CHECK(std::vector<float>(chosen.data<float>(), chosen.data<float>() + 6) == wanted(x, mask)[0]);
  CHECK(octet_output_shape(model, 2, shape) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("got 2, want less than 2"));
  CHECK(octet_output_shape(model, 0, nullptr) == OCTET_FAILED);
  CHECK(octet_output_shape(nullptr, 0, shape) == OCTET_FAILED);
  octet_free(model);
}

TEST_CASE("a file keeps what a run decides", "[backends][counts][artifact]") {
  for (bool open : {false, true}) {
    const std::string file = artifact_bytes(counted_rows("reference", open));
    const Program loaded = load_program(std::as_bytes(std::span(file)));
    CHECK(to_text(loaded) == to_text(counted_rows("reference", open)));
    CHECK(artifact_bytes(loaded) == file);
    Session session(loaded);
    check_run(session, {0, 1, 1, 0});
  }
}

TEST_CASE("a rest that does not fit its body is refused", "[backends][counts][artifact]") {
  CHECK(fault([](Program&) {}) == "none");
  CHECK_THAT(fault([](Program& p) { p.ops[1].attributes["counts"] = int64_t{3}; }),
             Contains("has 3 counts for 2 inputs"));
  CHECK_THAT(fault([](Program& p) { p.ops[1].attributes.erase("counts"); }),
             Contains("has 0 counts"));
  CHECK_THAT(fault([](Program& p) { p.ops[1].inputs[0] = p.inputs[0]; }),
             Contains("count 0 is not an i64 of one element"));
  CHECK_THAT(fault([](Program& p) { p.ops[1].inputs[1] = p.inputs[0]; }),
             Contains("input 0 of a body (places) is i64[4, 1], want f32[4, 3]"));
  CHECK_THAT(fault([](Program& p) { p.tensor(p.outputs[0]).shape = {3, 3}; }),
             Contains("output 0 of a body (chosen) is f32[4, 3], want f32[3, 3]"));
  CHECK_THAT(fault([](Program& p) {
               p.bodies[0].tensor(p.bodies[0].inputs[1]).sizes = {SizeExpr::symbol("s0"), 3};
               p.bodies[0].symbols.push_back({"s0", 1, 4, 4});
             }),
             Contains("no count decides the symbol s0 of the body"));
}

TEST_CASE("a program that is sound at the sizes of its example alone is refused at others",
          "[backends][counts]") {
  Program program = counted_rows("reference", true);
  program.tensor(program.outputs[0]).sizes.clear();
  Session session(std::move(program));
  check_run(session, {0, 1, 0, 1});
  CHECK_THAT(error_of([&] { check_run(session, {1, 0}); }),
             Contains("session: n = 2: the program contradicts itself at these sizes"));
}

TEST_CASE("a count beyond its range ends the run", "[backends][counts]") {
  Program program = counted_rows("reference");
  program.bodies[0].symbols[0].min = 1;
  Session session(std::move(program));
  CHECK_THAT(error_of([&] { check_run(session, {0, 0, 0, 0}); }),
             Contains("session: chosen (places): the count is 0 in this run, want 1 to 4"));
  check_run(session, {0, 0, 1, 0});
  // a program that hands over another number than it found
  Program wrong = counted_rows("reference");
  wrong.ops[1].inputs[0] = static_cast<int>(wrong.tensors.size());
  wrong.tensors.push_back({"nine",
                           DType::kInt64,
                           {},
                           {},
                           ProgramTensor::Role::kConstant,
                           Tensor::from<int64_t>(DType::kInt64, {}, std::vector<int64_t>{9})});
  Session misled(std::move(wrong));
  CHECK_THAT(error_of([&] { check_run(misled, {0, 1, 0, 0}); }),
             Contains("the count is 9 in this run, want 0 to 4"));
}

}  // namespace octet::test_counts
