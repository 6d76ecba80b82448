// The scores of a language model's last positions alone (SessionOptions::logits_to_keep).
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace {

enum class Rows { kFloat, kDynamic, kDynamicTogether };

// x f32[1, n, 40] -> exp -> perhaps quantized at run time, each row by itself or all together ->
// linear -> tanh -> times 3 -> y f32[1, n, 24], n from 1 to 16, lowered at 4.
Program small_head(const std::string& backend, Rows rows) {
  ProgramBuilder b;
  const std::vector<int64_t> in = {1, 4, 40}, out = {1, 4, 24};
  int x = b.op("unary", {b.input("x", DType::kFloat32, in)}, "hidden", DType::kFloat32, in, {},
               {{"fn", std::string("exp")}});
  if (rows != Rows::kFloat)
    x = b.op("fake_quantize_dynamic", {x}, "rows", DType::kFloat32, in, {},
             {{"blocks", ints({1, rows == Rows::kDynamic ? 4 : 1, 1})}});
  const int w = b.constant(
      "w", StoredConstant{random_integers(DType::kInt8, {24, 40}, 7, -127),
                          Tensor::from<float>(DType::kFloat32, {24, 1}, random_scales(24)),
                          {}});
  const int y = b.op("linear", {x, w, -1}, "head", DType::kFloat32, out);
  const int cap =
      b.op("unary", {y}, "cap", DType::kFloat32, out, {}, {{"fn", std::string("sigmoid")}});
  const int three =
      b.constant("three", Tensor::from<float>(DType::kFloat32, {}, std::vector<float>{3}));
  b.output(b.op("mul", {cap, three}, "y", DType::kFloat32, out));
  Program program = with_one_segment(b.finish(), backend);
  program.symbols = {{"n", 1, 16, 4}};
  for (ProgramTensor& tensor : program.tensors)
    if (!tensor.is_constant()) tensor.sizes = {1, SizeExpr::symbol("n"), tensor.shape[2]};
  if (rows == Rows::kDynamic) program.ops[1].sizes["blocks"] = {1, SizeExpr::symbol("n"), 1};
  return program;
}

// How far `last` is from the last rows of `all`: few and many rows round differently.
float distance(const Tensor& last, const Tensor& all) {
  float worst = 0;
  for (int64_t i = 0; i < last.numel(); ++i)
    worst = std::max(
        worst, std::abs(last.data<float>()[i] - all.data<float>()[all.numel() - last.numel() + i]));
  return worst;
}

std::string refused(Program program) {
  return error_of([&] { Session(std::move(program), {.logits_to_keep = 1}); });
}

}  // namespace

TEST_CASE("the scores of the last positions are those that all positions give",
          "[backends][open][last]") {
  for (const std::string& backend : backend_names())
    for (const Rows rows : {Rows::kFloat, Rows::kDynamic})
      for (const size_t count : {1, 3}) {
        CAPTURE(backend, count, rows == Rows::kDynamic);
        Session all(small_head(backend, rows));
        Session last(small_head(backend, rows), {.logits_to_keep = count});
        Session copy = last.duplicate();
        for (const int64_t n : {4, 1, 16}) {
          const Tensor x = random_floats({1, n, 40}, -1, 1, 3);
          const Tensor y = last.run({x})[0];
          CHECK(y.shape() == std::vector<int64_t>{1, std::min<int64_t>(n, count), 24});
          CHECK(distance(y, all.run({x})[0]) <= 1e-5f);
          CHECK(distance(copy.run({x})[0], y) == 0);
        }
      }
}

TEST_CASE("only the last positions pass through the head", "[backends][open][last]") {
  const Session last(small_head("reference", Rows::kFloat), {.logits_to_keep = 1});
  const Program& program = last.program();
  CHECK_THAT(to_text(program), Contains("hidden_last_positions: f32[1,1,40] = slice(hidden "));
  CHECK(program.tensor(program.outputs[0]).sizes.empty());
  // A program of few positions is not changed.
  Session whole(small_head("reference", Rows::kFloat), {.logits_to_keep = 16});
  CHECK(whole.program().ops.size() == program.ops.size() - 1);
}

TEST_CASE("a program whose output is not the result of a head is refused", "[backends][last]") {
  const std::string text =
      "session: logits_to_keep: is 1, and the first output does not come from a linear over all "
      "positions; leave it 0";
  CHECK(refused(two_segments()) == text);
  CHECK(refused(small_head("reference", Rows::kDynamicTogether)) == text);
  Program twice = small_head("reference", Rows::kFloat);
  twice.outputs.push_back(twice.outputs[0]);
  CHECK(refused(std::move(twice)) == text);
  ProgramBuilder rows;
  rows.output(rows.op("fake_quantize_dynamic", {rows.input("x", DType::kFloat32, {1, 4, 8})}, "y",
                      DType::kFloat32, {1, 4, 8}, {}, {{"blocks", ints({1, 4, 1})}}));
  CHECK(refused(with_one_segment(rows.finish(), "reference")) == text);
}
