// Recurrent layers on oneDNN against the reference: all cells, both directions, float and integer
// weights.
#include <catch2/catch.hpp>

#include "tests/backends/recurrent_programs.h"

namespace octet {
namespace {

using Weights = RecurrentWeights;

double run_recurrent(const RecurrentCase& cell, int64_t steps, int64_t batch, int64_t hidden,
                     Weights weights, bool has_bias, bool is_reverse, int64_t projected = 0) {
  const RecurrentProgram made =
      recurrent_program(cell, {steps, batch, hidden, projected, has_bias, is_reverse}, weights);
  return check_against_reference(made.program, "onednn", made.inputs);
}

}  // namespace

TEST_CASE("oneDNN: recurrent layers with float weights equal the reference",
          "[backends][onednn][recurrent]") {
  for (const RecurrentCase& cell : kRecurrentCases)
    for (int64_t batch : {1, 3, 9})
      for (bool is_reverse : {false, true}) {
        CAPTURE(cell.cell, batch, is_reverse);
        CHECK(run_recurrent(cell, 7, batch, 20, Weights::kFloat, is_reverse, is_reverse) <= 1e-5);
      }
  CHECK(run_recurrent(kRecurrentCases[0], 1, 1, 1, Weights::kFloat, true, false) <= 1e-5);
}

TEST_CASE("oneDNN: recurrent layers with integer weights equal the reference",
          "[backends][onednn][recurrent]") {
  for (const RecurrentCase& cell : kRecurrentCases)
    for (Weights weights : {Weights::kBytes, Weights::kNibbles})
      for (int64_t batch : {1, 4, 9}) {
        CAPTURE(cell.cell, batch, weights == Weights::kNibbles);
        CHECK(run_recurrent(cell, 5, batch, 40, weights, batch == 4, false) <= 1e-5);
      }
}

TEST_CASE("oneDNN: projections of the hidden state equal the reference",
          "[backends][onednn][recurrent]") {
  for (Weights weights : {Weights::kFloat, Weights::kBytes, Weights::kNibbles})
    for (int64_t batch : {1, 4, 9}) {
      CAPTURE(batch, static_cast<int>(weights));
      CHECK(run_recurrent(kRecurrentCases[0], 5, batch, 40, weights, batch == 4, batch == 9, 12) <=
            1e-5);
    }
  CHECK(run_recurrent(kRecurrentCases[0], 2, 1, 1, Weights::kFloat, true, false, 1) <= 1e-5);
}

TEST_CASE("oneDNN: a recurrent layer far outside of its gates' range saturates",
          "[backends][onednn][recurrent]") {
  ProgramBuilder b;
  const int p = b.input("p", DType::kFloat32, {1, 1, 4});
  const int h = b.input("h", DType::kFloat32, {1, 1}), c = b.input("c", DType::kFloat32, {1, 1});
  b.output(b.op("recurrent", {p, b.constant("r", random_floats({4, 1})), -1, h, c}, "y",
                DType::kFloat32, {1, 1, 1}, {}, {{"cell", std::string("lstm")}}));
  b.second_output("last", {1, 1});
  const Tensor extremes =
      Tensor::from<float>(DType::kFloat32, {1, 1, 4}, std::vector<float>{500, -500, 300, 1000});
  CHECK(check_against_reference(b.finish(), "onednn",
                                {extremes, random_floats({1, 1}), random_floats({1, 1})}) <= 1e-6);
}

TEST_CASE("oneDNN: a recurrent layer whose weights are computed at run time is refused",
          "[backends][onednn][recurrent]") {
  ProgramBuilder b;
  const int p = b.input("p", DType::kFloat32, {2, 1, 3}), r = b.input("r", DType::kFloat32, {3, 3}),
            h = b.input("h", DType::kFloat32, {1, 3});
  b.output(b.op("recurrent", {p, r, -1, h}, "y", DType::kFloat32, {2, 1, 3}, {},
                {{"cell", std::string("tanh")}}));
  CHECK(refusal(b.finish(), "onednn") == "y: the weight is not constant");
}

TEST_CASE("reference: a recurrent op that does not fit its weights is refused with the shapes",
          "[backends][reference][recurrent]") {
  const auto reason = [](const char* cell, std::vector<int64_t> gates, std::vector<int64_t> state) {
    ProgramBuilder b;
    const int p = b.input("p", DType::kFloat32, gates), h = b.input("h", DType::kFloat32, state);
    b.output(b.op("recurrent", {p, b.constant("r", random_floats({6, 2})), -1, h}, "y",
                  DType::kFloat32, {2, 1, 2}, {}, {{"cell", std::string(cell)}}));
    return refusal(b.finish(), "reference").value_or("accepted");
  };
  CHECK(reason("gru", {2, 1, 6}, {1, 2}) == "accepted");
  CHECK(reason("gru", {2, 1, 5}, {1, 2}) == "y: gates [2, 1, 5] do not fit weights [6, 2] of gru");
  CHECK(reason("tanh", {2, 1, 6}, {1, 2}) ==
        "y: gates [2, 1, 6] do not fit weights [6, 2] of tanh");
  CHECK(reason("gru", {2, 1, 6}, {3, 2}) == "y: a state has shape [3, 2], want [1, 2]");
  CHECK(reason("lstm", {2, 1, 6}, {1, 2}) == "y: lstm has 4 inputs and 1 outputs");
  CHECK(reason("peephole", {2, 1, 6}, {1, 2}) == "y: unknown cell \"peephole\"");
}

TEST_CASE("reference: a projection that does not fit the hidden state is refused with the shapes",
          "[backends][reference][recurrent]") {
  const auto reason = [](std::vector<int64_t> projection, std::vector<int64_t> cells) {
    ProgramBuilder b;
    const int p = b.input("p", DType::kFloat32, {2, 1, 12}),
              h = b.input("h", DType::kFloat32, {1, 2}), c = b.input("c", DType::kFloat32, cells);
    b.output(b.op("recurrent",
                  {p, b.constant("r", random_floats({12, 2})), -1, h, c,
                   b.constant("projection", random_floats(projection))},
                  "y", DType::kFloat32, {2, 1, 2}, {}, {{"cell", std::string("lstm")}}));
    b.second_output("last", {1, 3});
    return refusal(b.finish(), "reference").value_or("accepted");
  };
  CHECK(reason({2, 3}, {1, 3}) == "accepted");
  CHECK(reason({3, 2}, {1, 3}) == "y: the projection has shape [3, 2], want [2, 3]");
  CHECK(reason({2, 3}, {1, 2}) == "y: a state has shape [1, 2], want [1, 3]");
}

}  // namespace octet
