// Recurrent layers in a segment of XNNPACK against the reference: all cells, both directions,
// projections, float and integer weights, threads; what is refused.
#include <cmath>

#include <catch2/catch.hpp>

#include "backends/kernels/recurrent_layer.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "tests/backends/recurrent_programs.h"

namespace octet::test_xnnpack_recurrent {
namespace {

using Weights = RecurrentWeights;

double run_recurrent(const RecurrentCase& cell, const RecurrentSizes& sizes, Weights weights) {
  const RecurrentProgram made = recurrent_program(cell, sizes, weights);
  return check_against_reference(made.program, "xnnpack", made.inputs);
}

std::vector<Tensor> run_with(int threads, const RecurrentProgram& made) {
  return Session(with_one_segment(made.program, "xnnpack"), {.threads = threads}).run(made.inputs);
}

std::vector<float> floats_of(const std::vector<Tensor>& tensors) {
  std::vector<float> all;
  for (const Tensor& tensor : tensors)
    all.insert(all.end(), tensor.data<float>(), tensor.data<float>() + tensor.numel());
  return all;
}

RecurrentProgram recurrent_with(const char* cell, std::vector<int64_t> gates,
                                std::vector<int64_t> state) {
  ProgramBuilder b;
  const int p = b.input("p", DType::kFloat32, std::move(gates)),
            h = b.input("h", DType::kFloat32, std::move(state));
  const std::vector<int> inputs = {p, b.constant("r", random_floats({6, 2})), -1, h};
  b.output(b.op("recurrent", inputs, "y", DType::kFloat32, {2, 1, 2}, {},
                {{"cell", std::string(cell)}}));
  return {b.finish(), {}};
}

}  // namespace

TEST_CASE("XNNPACK: recurrent layers with float weights equal the reference",
          "[backends][xnnpack][recurrent]") {
  for (const RecurrentCase& cell : kRecurrentCases)
    for (int64_t batch : {1, 2, 3, 9, 17})
      for (int64_t hidden : {1, 20, 33})  // parts of a vector, a whole one and a part
        for (bool is_reverse : {false, true}) {
          CAPTURE(cell.cell, batch, hidden, is_reverse);
          CHECK(run_recurrent(cell, {7, batch, hidden, 0, is_reverse, is_reverse},
                              Weights::kFloat) <= 1e-5);
        }
}

TEST_CASE("XNNPACK: recurrent layers with weights stored as integers equal the reference",
          "[backends][xnnpack][recurrent]") {
  for (const RecurrentCase& cell : kRecurrentCases)
    for (Weights weights : {Weights::kBytes, Weights::kNibbles, Weights::kShifted})
      for (int64_t batch : {1, 4, 5}) {
        CAPTURE(cell.cell, batch, static_cast<int>(weights));
        CHECK(run_recurrent(cell, {5, batch, 40, 0, batch == 4}, weights) <= 1e-5);
      }
}

TEST_CASE("XNNPACK: large recurrent layers read the integers themselves, whatever the depth",
          "[backends][xnnpack][recurrent]") {
  for (const RecurrentCase& cell : kRecurrentCases)
    for (int64_t batch : {1, 2, 4}) {
      const int64_t hidden = cell.gates == 1 ? 323 : 182;  // no multiples of four
      const RecurrentProgram made = recurrent_program(cell, {3, batch, hidden}, Weights::kBytes);
      CAPTURE(cell.cell, batch);
      CHECK(RecurrentLayer(made.program, made.program.ops[0]).has_integers());
      CHECK(check_against_reference(made.program, "xnnpack", made.inputs) <= 2e-5);
    }
  for (Weights weights : {Weights::kFloat, Weights::kShifted}) {
    const RecurrentProgram made = recurrent_program(kRecurrentCases[0], {1, 1, 182}, weights);
    CHECK_FALSE(RecurrentLayer(made.program, made.program.ops[0]).has_integers());
  }
  const RecurrentProgram many = recurrent_program(kRecurrentCases[0], {1, 5, 182}, Weights::kBytes);
  CHECK_FALSE(RecurrentLayer(many.program, many.program.ops[0]).has_integers());
}

TEST_CASE("XNNPACK: projections of the hidden state equal the reference",
          "[backends][xnnpack][recurrent]") {
  for (Weights weights : {Weights::kFloat, Weights::kBytes, Weights::kNibbles})
    for (int64_t batch : {1, 4, 9}) {
      CAPTURE(batch, static_cast<int>(weights));
      const RecurrentSizes sizes = {5, batch, 40, 12, batch == 4, batch == 9};
      CHECK(run_recurrent(kRecurrentCases[0], sizes, weights) <= 1e-5);
    }
  CHECK(run_recurrent(kRecurrentCases[0], {2, 1, 1, 1}, Weights::kFloat) <= 1e-5);
}

TEST_CASE("XNNPACK: recurrent layers give the same with any number of threads",
          "[backends][xnnpack][recurrent]") {
  for (const RecurrentSizes& sizes :
       {RecurrentSizes{5, 1, 30},   // one part
        RecurrentSizes{5, 5, 30},   // the batch is cut into parts
        RecurrentSizes{4, 1, 400},  // the units are
        RecurrentSizes{4, 1, 400, 70}, RecurrentSizes{3, 16, 200, 70}})
    for (Weights weights : {Weights::kFloat, Weights::kBytes}) {
      CAPTURE(sizes.batch, sizes.hidden, sizes.projected, static_cast<int>(weights));
      const RecurrentProgram made = recurrent_program(kRecurrentCases[0], sizes, weights);
      const std::vector<float> one = floats_of(run_with(1, made));
      for (int threads : {2, 5}) {
        const std::vector<float> several = floats_of(run_with(threads, made));
        REQUIRE(several.size() == one.size());
        for (size_t i = 0; i < one.size(); ++i) CHECK_FALSE(std::abs(several[i] - one[i]) > 2e-6f);
      }
    }
}

TEST_CASE("XNNPACK: a recurrent layer stays in the segment of its neighbors, run after run",
          "[backends][xnnpack][recurrent]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {3, 2, 8});
  std::vector<int> inputs = {x, b.constant("w", random_floats({24, 8}, -1, 1, 8)), -1};
  const int gates = b.op("linear", inputs, "gates", DType::kFloat32, {3, 2, 24});
  const int zeros = b.constant("zeros", Tensor::zeros(DType::kFloat32, {2, 6}));
  inputs = {gates, b.constant("r", random_floats({24, 6}, -1, 1, 9)), -1, zeros, zeros};
  const int y = b.op("recurrent", inputs, "y", DType::kFloat32, {3, 2, 6}, {},
                     {{"cell", std::string("lstm")}});
  const int last = b.second_output("last", {2, 6});
  inputs = {y};
  b.output(b.op("unary", inputs, "negative", DType::kFloat32, {3, 2, 6}, {},
                {{"fn", std::string("neg")}}));
  inputs = {last};
  b.output(
      b.op("unary", inputs, "positive", DType::kFloat32, {2, 6}, {}, {{"fn", std::string("abs")}}));
  const Program program = b.finish();
  const Tensor first = random_floats({3, 2, 8}), second = random_floats({3, 2, 8}, -1, 1, 2);
  CHECK(check_against_reference(program, "xnnpack", {first}) <= 1e-5);
  Session session(with_one_segment(program, "xnnpack"));
  const std::vector<float> want = floats_of(session.run({first}));
  session.run({second});
  CHECK(floats_of(session.run({first})) == want);  // no state is left of the run between
}

TEST_CASE("XNNPACK: a recurrent layer far outside of its gates' range saturates, NaNs stay",
          "[backends][xnnpack][recurrent]") {
  RecurrentProgram made = recurrent_program(kRecurrentCases[0], {1, 1, 1}, Weights::kFloat);
  made.inputs[0] =
      Tensor::from<float>(DType::kFloat32, {1, 1, 4}, std::vector<float>{500, -500, 300, 1000});
  CHECK(check_against_reference(made.program, "xnnpack", made.inputs) <= 1e-6);
  for (const RecurrentCase& cell : kRecurrentCases) {
    CAPTURE(cell.cell);
    RecurrentProgram broken = recurrent_program(cell, {2, 1, 3}, Weights::kFloat);
    broken.inputs[0].data<float>()[1] = std::nanf("");
    const std::vector<float> y = floats_of(run_with(1, broken));
    CHECK_FALSE(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(std::isnan(y[3]));  // the next step reads it
  }
}

TEST_CASE("XNNPACK: recurrent layers that do not fit or whose weights are computed are refused",
          "[backends][xnnpack][recurrent]") {
  const auto reason = [](const char* cell, std::vector<int64_t> gates, std::vector<int64_t> state) {
    return refusal(recurrent_with(cell, std::move(gates), std::move(state)).program, "xnnpack")
        .value_or("accepted");
  };
  CHECK(reason("gru", {2, 1, 6}, {1, 2}) == "accepted");
  CHECK(reason("gru", {2, 1, 5}, {1, 2}) == "y: gates [2, 1, 5] do not fit weights [6, 2] of gru");
  CHECK(reason("gru", {2, 1, 6}, {3, 2}) == "y: a state has shape [3, 2], want [1, 2]");
  CHECK(reason("lstm", {2, 1, 6}, {1, 2}) == "y: lstm has 4 inputs and 1 outputs");
  CHECK(reason("peephole", {2, 1, 6}, {1, 2}) == "y: unknown cell \"peephole\"");
  ProgramBuilder b;
  const int p = b.input("p", DType::kFloat32, {2, 1, 3}), r = b.input("r", DType::kFloat32, {3, 3}),
            h = b.input("h", DType::kFloat32, {1, 3});
  const std::vector<int> inputs = {p, r, -1, h};
  b.output(b.op("recurrent", inputs, "y", DType::kFloat32, {2, 1, 3}, {},
                {{"cell", std::string("tanh")}}));
  CHECK(refusal(b.finish(), "xnnpack") == "y: the weight is not constant");
}

}  // namespace octet::test_xnnpack_recurrent
