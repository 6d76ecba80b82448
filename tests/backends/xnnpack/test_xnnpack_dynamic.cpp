// Linear on activations quantized at run time on XNNPACK: in integers, with any kernel; and what
// stays in float.
#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/kernels/row_kernels.h"
#include "tests/backends/small_programs.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

constexpr DType kF32 = DType::kFloat32;
constexpr double kRounding = 2e-5;  // of sums of about 10
constexpr const char* kMappings[] = {"asymmetric", "symmetric", "symmetric_unclipped",
                                     "least_error"};

StoredConstant stored(const Shape& shape, const Shape& blocks, int64_t low = -127,
                      int64_t high = 127, uint32_t seed = 2) {
  const size_t count = static_cast<size_t>(product(blocks));
  return {random_integers(DType::kInt8, shape, seed, low, high),
          Tensor::from<float>(kF32, blocks, random_scales(count)), Tensor()};
}

Tensor rows(const Shape& shape) { return random_floats(shape, -1, 3); }

struct Linear {
  Shape x_shape;
  int64_t out;
  Attributes attributes;
  bool has_bias = true;
  Attributes post = {};
  bool has_one_scale = false;
  int64_t least_weight = -127;
};

double difference(const Linear& given) {
  ProgramBuilder b;
  Shape y_shape = given.x_shape;
  y_shape.back() = given.out;
  const int x = b.input("x", kF32, given.x_shape);
  const int w =
      b.constant("w", stored({given.out, given.x_shape.back()},
                             {given.has_one_scale ? 1 : given.out, 1}, given.least_weight));
  const int bias = given.has_bias ? b.constant("b", random_floats({given.out}, -1, 1, 5)) : -1;
  const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, given.x_shape, {}, given.attributes);
  b.output(b.op("linear", {q, w, bias}, "y", kF32, y_shape, {}, given.post));
  return check_against_reference(b.finish(), "xnnpack", {rows(given.x_shape)});
}

// Why the quantize op with `attributes` does not make bytes for a product when `add_reader` reads
// it; empty when it does.
template <typename AddReader>
std::string reason(const Shape& shape, const Attributes& attributes, const AddReader& add_reader) {
  ProgramBuilder b;
  const int x = b.input("x", kF32, shape);
  const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, shape, {}, attributes);
  b.output(add_reader(b, q));
  const Program program = b.finish();
  const Verdict verdict = xnnpack::check_row_quantize(program, program.ops[0]);
  return verdict ? "" : "q: " + verdict.reason();
}

}  // namespace

TEST_CASE(
    "XNNPACK: a linear on activations quantized at run time equals the reference, with every "
    "mapping, per row and per tensor",
    "[backends][xnnpack][dynamic]") {
  for (const char* name : kMappings) {
    CAPTURE(name);
    CHECK(difference({{2, 5, 40}, 24, mapping(name, -128, 127, {2, 5, 1})}) <= kRounding);
    CHECK(difference({{2, 5, 40}, 24, mapping(name, -128, 127, {1, 1, 1})}) <= kRounding);
    CHECK(difference({{2, 5, 40}, 24, mapping(name, -128, 127, {2, 1, 1}), false}) <= kRounding);
    CHECK(difference({{7, 33}, 3, mapping(name, 0, 255, {7, 1}), false}) <= kRounding);
    CHECK(difference({{7, 33}, 70, mapping(name, -7, 8, {7, 1})}) <= kRounding);
    CHECK(difference({{1, 33}, 200, mapping(name, -127, 127, {1, 1})}) <= kRounding);
  }
  CHECK(difference({{17}, 5, mapping("asymmetric", -128, 127, {1})}) <= kRounding);
  CHECK(difference({{1, 1}, 1, mapping("asymmetric", -128, 127, {1, 1})}) <= kRounding);
  CHECK(difference({{1, 128, 384}, 384, mapping("asymmetric", -128, 127, {1, 128, 1})}) <=
        10 * kRounding);
}

TEST_CASE(
    "XNNPACK: a linear on activations quantized at run time takes one scale for all weights, 4-bit "
    "weights and -128",
    "[backends][xnnpack][dynamic]") {
  const Attributes per_row = mapping("asymmetric", -128, 127, {9, 1});
  CHECK(difference({{9, 50}, 20, per_row, true, {}, true}) <= kRounding);
  CHECK(difference({{9, 50}, 20, per_row, true, {}, false, -128}) <= kRounding);
  ProgramBuilder b;
  const int q =
      b.op("fake_quantize_dynamic", {b.input("x", kF32, {9, 50})}, "q", kF32, {9, 50}, {}, per_row);
  const int w = b.constant("w", stored({20, 50}, {20, 1}, -8, 7));
  b.output(b.op("linear", {q, w, -1}, "y", kF32, {9, 20}));
  CHECK(check_against_reference(b.finish(), "xnnpack", {rows({9, 50})}) <= kRounding);
}

TEST_CASE(
    "XNNPACK: a linear on activations quantized at run time multiplies integers in groups of "
    "weights, 4-bit and 8-bit",
    "[backends][xnnpack][dynamic]") {
  for (const auto& [low, high] : {std::pair{-8, 7}, {-128, 127}})
    for (const int64_t group : {16, 20, 32, 256})
      for (const int64_t rows_of_x : {1, 2, 3, 6, 50})
        for (const int64_t out : {3, 16, 40})
          for (const char* name : {"asymmetric", "symmetric"}) {
            CAPTURE(low, group, rows_of_x, out, name);
            const Attributes per_row = mapping(name, -128, 127, {rows_of_x, 1});
            const auto add_linear = [&](ProgramBuilder& b, int q) {
              const int w = b.constant("w", stored({out, 3 * group}, {out, 3}, low, high)),
                        bias = b.constant("b", random_floats({out}, -1, 1, 5));
              return b.op("linear", {q, w, bias}, "y", kF32, {rows_of_x, out}, {},
                          {{"post_min", -20.0}, {"post_max", 20.0}});
            };
            const Shape shape{rows_of_x, 3 * group};
            // x86 has no such kernel: there the linear reads floats
            CHECK((reason(shape, per_row, add_linear) == "") ==
                  (xnnpack::best_row_kernel().run_groups != nullptr));
            ProgramBuilder b;
            const int q = b.op("fake_quantize_dynamic", {b.input("x", kF32, shape)}, "q", kF32,
                               shape, {}, per_row);
            b.output(add_linear(b, q));
            CHECK(check_against_reference(b.finish(), "xnnpack", {rows(shape)}) <= 5 * kRounding);
          }
}

TEST_CASE("XNNPACK: a clamp after a linear on integers made at run time is applied to the reals",
          "[backends][xnnpack][dynamic]") {
  const Attributes per_row = mapping("least_error", -128, 127, {4, 1});
  CHECK(difference({{4, 40}, 24, per_row, true, {{"post_min", 0.0}}}) <= kRounding);
  CHECK(difference({{4, 40}, 24, per_row, false, {{"post_min", -1.0}, {"post_max", 2.5}}}) <=
        kRounding);
}

TEST_CASE(
    "XNNPACK: several linears share the integers made at run time, between ops in float of both "
    "memory orders",
    "[backends][xnnpack][dynamic]") {
  ProgramBuilder b;
  const Shape shape{2, 6, 5, 16};
  const Attributes pooling = {
      {"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}, {"padding", ints({1, 1})}};
  const int x = b.op("max_pool", {b.input("x", kF32, shape)}, "p", kF32, shape, {}, pooling);
  const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, shape, {},
                     mapping("asymmetric", -128, 127, {2, 6, 5, 1}));
  std::vector<int> results;
  for (const std::string name : {"a", "b", "c"}) {
    const int w = b.constant("w" + name,
                             stored({16, 16}, {16, 1}, -127, 127, static_cast<uint32_t>(name[0])));
    results.push_back(b.op("linear", {q, w, -1}, name, kF32, shape));
  }
  const int sum = b.op("add", {results[0], results[1]}, "sum", kF32, shape);
  const int again = b.op("fake_quantize_dynamic", {sum}, "q2", kF32, shape, {},
                         mapping("symmetric", -127, 127, {1, 1, 1, 1}));
  b.output(b.op("linear", {again, b.constant("w2", stored({4, 16}, {4, 1})), -1}, "y", kF32,
                {2, 6, 5, 4}));
  b.output(b.op("max_pool", {results[2]}, "z", kF32, shape, {}, pooling));
  b.output(results[0]);
  // of sums of about 100
  CHECK(check_against_reference(b.finish(), "xnnpack", {rows(shape)}) <= 20 * kRounding);
}

TEST_CASE("XNNPACK: rows of zeros, of one sign and of huge values keep their values",
          "[backends][xnnpack][dynamic]") {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {3, 32});
  const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, {3, 32}, {},
                     mapping("asymmetric", -128, 127, {3, 1}));
  b.output(b.op("linear", {q, b.constant("w", stored({8, 32}, {8, 1})), -1}, "y", kF32, {3, 8}));
  Tensor given = random_floats({3, 32}, 1, 3);
  std::fill_n(given.data<float>(), 32, 0.0f);
  for (int i = 0; i < 32; ++i) given.data<float>()[32 + i] *= -1;
  CHECK(check_against_reference(b.finish(), "xnnpack", {given}) <= kRounding);
}

TEST_CASE("XNNPACK: a row with infinities or NaNs leaves the other rows alone",
          "[backends][xnnpack][dynamic]") {
  for (const char* name : kMappings) {
    CAPTURE(name);
    ProgramBuilder b;
    const int x = b.input("x", kF32, {3, 32});
    const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, {3, 32}, {},
                       mapping(name, -128, 127, {3, 1}));
    b.output(b.op("linear", {q, b.constant("w", stored({8, 32}, {8, 1})), -1}, "y", kF32, {3, 8}));
    const Program program = with_one_segment(b.finish(), "xnnpack");
    Tensor given = rows({3, 32});
    const Tensor want = Session(program).run({given})[0];
    given.data<float>()[0] = std::numeric_limits<float>::infinity();
    given.data<float>()[1] = -std::numeric_limits<float>::infinity();
    given.data<float>()[33] = std::numeric_limits<float>::quiet_NaN();
    const Tensor got = Session(program).run({given})[0];
    CHECK(std::equal(got.data<float>() + 16, got.data<float>() + 24, want.data<float>() + 16));
  }
}

TEST_CASE(
    "XNNPACK: activations quantized at run time stay floats if one of their readers cannot "
    "multiply integers",
    "[backends][xnnpack][dynamic]") {
  const Attributes per_row = mapping("asymmetric", -128, 127, {2, 1});
  const auto linear_with = [&](StoredConstant weight) {
    return reason({2, 8}, per_row, [&](ProgramBuilder& b, int q) {
      return b.op("linear", {q, b.constant("w", weight), -1}, "y", kF32, {2, 4});
    });
  };
  CHECK(linear_with(stored({4, 8}, {4, 1})) == "");
  CHECK(linear_with(stored({4, 8}, {4, 2})) ==
        "q: y cannot multiply its integers: its weight is stored as i8 in 4x2 blocks, want int8 "
        "with a scale per row or one (on Arm also one per 16 or more inputs, a multiple of 4), and "
        "zero points 0");
  StoredConstant shifted = stored({4, 8}, {4, 1});
  shifted.zero_point = Tensor::from<float>(kF32, {4, 1}, std::vector<float>{0, 0, 3, 0});
  CHECK(linear_with(shifted) ==
        "q: y cannot multiply its integers: its weight is stored as i8 in 4x1 blocks, want int8 "
        "with a scale per row or one (on Arm also one per 16 or more inputs, a multiple of 4), and "
        "zero points 0");
  CHECK(reason({2, 8}, per_row, [](ProgramBuilder& b, int q) {
          return b.op("linear", {q, b.constant("w", random_floats({4, 8})), -1}, "y", kF32, {2, 4});
        }) == "q: y cannot multiply its integers: its weight is not stored as integers");
  CHECK(reason({2, 8}, per_row, [](ProgramBuilder& b, int q) {
          return b.op("add", {q, q}, "y", kF32, {2, 8});
        }) == "q: y cannot multiply its integers: add reads its floats");
  CHECK(reason({2, 8}, per_row, [](ProgramBuilder&, int q) { return q; }) ==
        "q: its floats are an output or a state of the program");
  CHECK(reason({2, 8}, mapping("asymmetric", -128, 127, {2, 2}), [](ProgramBuilder& b, int q) {
          return b.op("add", {q, q}, "y", kF32, {2, 8});
        }) == "q: the scales are for [2, 2] blocks of [2, 8], want one per tensor or per row");
  CHECK(reason({2, 8}, mapping("asymmetric", -32768, 32767, {2, 1}), [](ProgramBuilder& b, int q) {
          return b.op("add", {q, q}, "y", kF32, {2, 8});
        }) == "q: the range has more than 256 steps");
  Attributes shifted_range = mapping("symmetric", -128, 127, {2, 1});
  shifted_range["zero_point"] = int64_t{1} << 40;
  CHECK(reason({2, 8}, shifted_range, [](ProgramBuilder& b, int q) {
          return b.op("add", {q, q}, "y", kF32, {2, 8});
        }) == "q: the zero point is outside of the range");
}

TEST_CASE("XNNPACK: floats that are quantized at run time for other readers equal the reference",
          "[backends][xnnpack][dynamic]") {
  for (const char* name : kMappings)
    for (const Shape& shape : {Shape{3, 37}, Shape{2, 5, 64}, Shape{1, 1}})
      for (bool is_per_tensor : {false, true}) {
        CAPTURE(name, shape, is_per_tensor);
        Shape blocks = shape;
        blocks.back() = 1;
        if (is_per_tensor) std::fill(blocks.begin(), blocks.end(), 1);
        ProgramBuilder b;
        const int x = b.input("x", kF32, shape);
        const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, shape, {},
                           mapping(name, -128, 127, blocks));
        b.output(q);
        b.output(b.op("add", {q, q}, "y", kF32, shape));
        CHECK(check_against_reference(b.finish(), "xnnpack", {rows(shape)}) <= kRounding);
      }
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 8});
  b.output(b.op("fake_quantize_dynamic", {x}, "q", kF32, {2, 8}, {},
                mapping("asymmetric", -128, 127, {2, 2})));
  CHECK(refusal(b.finish(), "xnnpack") ==
        "q: the scales are for [2, 2] blocks of [2, 8], want one per tensor or per row");
}

TEST_CASE(
    "XNNPACK: linears on integers made at run time take every batch of an open program, and give "
    "the same with threads",
    "[backends][xnnpack][dynamic]") {
  Session one(open_dynamic_linears("xnnpack")), several(open_dynamic_linears("xnnpack"), 3),
      reference(open_dynamic_linears("reference"));
  for (int64_t batch : {1, 3, 16}) {
    CAPTURE(batch);
    const Tensor x = rows({batch, 5, 40});
    const Tensor got = one.run({x})[0], threaded = several.run({x})[0],
                 want = reference.run({x})[0];
    REQUIRE(got.shape() == Shape{batch, 5, 24});
    double greatest = 0;
    for (int64_t i = 0; i < got.numel(); ++i)
      greatest = std::max<double>(greatest, std::abs(got.data<float>()[i] - want.data<float>()[i]));
    CHECK(greatest <= kRounding);
    CHECK(std::equal(got.data<float>(), got.data<float>() + got.numel(), threaded.data<float>()));
  }
}

TEST_CASE("XNNPACK: a linear reads floats when its input is quantized in another segment",
          "[backends][xnnpack][dynamic]") {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 8});
  const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, {2, 8}, {},
                     mapping("asymmetric", -128, 127, {2, 1}));
  const int y = b.op("linear", {q, b.constant("w", stored({4, 8}, {4, 1})), -1}, "y", kF32, {2, 4});
  b.output(y);
  Program program = b.finish();
  program.segments = {{"reference", {0}, {x}, {q}}, {"xnnpack", {1}, {q}, {y}}};
  const std::vector<Tensor> apart = Session(program).run({rows({2, 8})});
  const std::vector<Tensor> together =
      Session(with_one_segment(program, "xnnpack")).run({rows({2, 8})});
  for (int64_t i = 0; i < apart[0].numel(); ++i)
    CHECK(apart[0].data<float>()[i] == Approx(together[0].data<float>()[i]).margin(kRounding));
  std::swap(program.segments[0].backend, program.segments[1].backend);
  CHECK_THROWS_WITH(Session(program),
                    "xnnpack: q: its floats leave the segment, but only its bytes are made; lower "
                    "the model again");
}

}  // namespace octet
