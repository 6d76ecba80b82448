// Whole segments on oneDNN: layouts and shifted zero points between ops, several outputs, threads,
// refusals.
#include <algorithm>
#include <thread>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

// A convolution of tensor `x` with made-up weights.
int add_conv(ProgramBuilder& b, const std::string& name, int x, const Shape& in, int64_t channels,
             int64_t kernel, int64_t stride, int64_t groups, DType dtype, bool relu) {
  const int64_t padding = kernel / 2;
  const Shape out = {in[0], channels, (in[2] + 2 * padding - kernel) / stride + 1,
                     (in[3] + 2 * padding - kernel) / stride + 1};
  const uint32_t seed = static_cast<uint32_t>(channels * 31 + kernel * 7 + groups);
  const int w = b.constant(
      name + "_w",
      random_integers(DType::kInt8, {channels, in[1] / groups, kernel, kernel}, seed, -127, 127),
      per_channel(random_scales(static_cast<size_t>(channels), 0.001f, 0.004f, seed), 0));
  const int bias = b.constant(name + "_b", random_floats({channels}, -0.5f, 0.5f, seed));
  Attributes attributes = {{"stride", ints({stride, stride})},
                           {"padding", ints({padding, padding})},
                           {"dilation", ints({1, 1})},
                           {"groups", groups}};
  if (relu) attributes["post_min"] = 0.0;
  const int low = dtype == DType::kUInt8 ? 0 : -128;
  return b.op("conv", {x, w, bias}, name, dtype, out, quantized(0.05f, relu ? low : low + 120),
              attributes);
}

// A small residual network with a classifier.
Program residual_program(DType dtype) {
  ProgramBuilder b;
  const int image = b.input("image", DType::kFloat32, {2, 3, 16, 16});
  const int x = b.op("quantize", {image}, "x", dtype, {2, 3, 16, 16},
                     quantized(0.02f, dtype == DType::kUInt8 ? 114 : -14));
  const int stem = add_conv(b, "stem", x, {2, 3, 16, 16}, 16, 3, 2, 1, dtype, true);
  const int pool = b.op("max_pool", {stem}, "pool", dtype, {2, 16, 4, 4},
                        quantized(0.05f, dtype == DType::kUInt8 ? 0 : -128),
                        {{"kernel_size", ints({3, 3})},
                         {"stride", ints({2, 2})},
                         {"padding", ints({1, 1})},
                         {"dilation", ints({1, 1})},
                         {"ceil_mode", false}});
  const int wide = add_conv(b, "wide", pool, {2, 16, 4, 4}, 16, 3, 1, 16, dtype, true);
  const int back = add_conv(b, "back", wide, {2, 16, 4, 4}, 16, 1, 1, 1, dtype, false);
  const int sum = b.op("add", {back, pool}, "sum", dtype, {2, 16, 4, 4},
                       quantized(0.06f, dtype == DType::kUInt8 ? 60 : -68));
  const int mean = b.op("mean", {sum}, "mean", dtype, {2, 16},
                        quantized(0.03f, dtype == DType::kUInt8 ? 60 : -68),
                        {{"dims", ints({2, 3})}, {"keepdim", false}});
  const int w = b.constant("fc_w", random_integers(DType::kInt8, {10, 16}, 77, -127, 127),
                           per_channel(random_scales(10), 0));
  const int fc = b.op("linear", {mean, w, -1}, "fc", DType::kFloat32, {2, 10});
  b.output(fc);
  b.output(sum);
  return b.finish();
}

}  // namespace

TEST_CASE("oneDNN: a residual network is one segment close to the reference",
          "[backends][onednn]") {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    const Program program = residual_program(dtype);
    CHECK_FALSE(refusal(program, "onednn").has_value());
    const std::vector<Tensor> inputs = {random_floats({2, 3, 16, 16}, -2, 2, 5)};
    Session ours(with_one_segment(program, "onednn"), 1);
    Session expected(with_one_segment(program, "reference"), 1);
    const std::vector<Tensor> a = ours.run(inputs);
    const std::vector<Tensor> e = expected.run(inputs);
    int64_t different = 0;
    for (int64_t i = 0; i < a[1].numel(); ++i) {
      const int step = dtype == DType::kUInt8 ? a[1].data<uint8_t>()[i] - e[1].data<uint8_t>()[i]
                                              : a[1].data<int8_t>()[i] - e[1].data<int8_t>()[i];
      CHECK(std::abs(step) <= 3);  // a step of each op on the way
      different += step != 0;
    }
    CHECK(different < a[1].numel() / 10);
    for (int64_t i = 0; i < a[0].numel(); ++i)
      CHECK(a[0].data<float>()[i] == Approx(e[0].data<float>()[i]).margin(0.05));
  }
}

TEST_CASE("oneDNN: a second run and another thread count give the same bytes",
          "[backends][onednn]") {
  const Program program = with_one_segment(residual_program(DType::kInt8), "onednn");
  const std::vector<Tensor> inputs = {random_floats({2, 3, 16, 16}, -2, 2, 5)};
  Session one(program, 1);
  Session two(program, 2);
  const std::vector<Tensor> first = one.run(inputs);
  for (Session* session : {&one, &two}) {
    const std::vector<Tensor> again = session->run(inputs);
    for (size_t i = 0; i < first.size(); ++i)
      CHECK(std::equal(first[i].raw(), first[i].raw() + first[i].nbytes(), again[i].raw()));
  }
}

TEST_CASE("oneDNN: custom loops give the same bytes on one thread and on three",
          "[backends][onednn]") {
  const Shape shape = {1, 130, 30, 31};
  ProgramBuilder b;
  const int image = b.input("image", DType::kFloat32, shape);
  const int x = b.op("quantize", {image}, "x", DType::kUInt8, shape, quantized(0.02f, 114));
  const int table = b.op("unary", {x}, "table", DType::kUInt8, shape, quantized(0.02f, 90),
                         {{"fn", std::string("tanh")}});
  const int sum = b.op("add", {x, table}, "sum", DType::kInt8, shape, quantized(0.05f, -3));
  const int tail =
      b.op("slice", {sum}, "tail", DType::kInt8, {1, 130, 30, 17}, quantized(0.05f, -3),
           {{"dim", int64_t{3}}, {"start", int64_t{5}}, {"step", int64_t{1}}});
  b.output(b.op("dequantize", {sum}, "real", DType::kFloat32, shape));
  b.output(b.op("copy", {tail}, "copy", DType::kInt8, {1, 130, 30, 17}, quantized(0.05f, -3)));
  b.output(b.op("mean", {sum}, "mean", DType::kInt8, {1, 130}, quantized(0.03f, 2),
                {{"dims", ints({2, 3})}, {"keepdim", false}}));
  const Program program = with_one_segment(b.finish(), "onednn");
  const std::vector<Tensor> inputs = {random_floats(shape, -2, 2, 5)};
  Session one(program, 1);
  Session three(program, 3);
  const std::vector<Tensor> first = one.run(inputs);
  const std::vector<Tensor> again = three.run(inputs);
  for (size_t i = 0; i < first.size(); ++i) {
    CAPTURE(i);
    CHECK(std::equal(first[i].raw(), first[i].raw() + first[i].nbytes(), again[i].raw()));
  }
}

TEST_CASE("oneDNN: an image is quantized as the reference does it, of every size",
          "[backends][onednn]") {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    for (const Shape& size : {Shape{2, 3, 1, 5}, Shape{1, 3, 4, 4}, Shape{1, 3, 16, 17},
                              Shape{2, 3, 33, 31}, Shape{1, 3, 160, 130}}) {
      CAPTURE(name_of(dtype), size);
      ProgramBuilder b;
      const int image = b.input("image", DType::kFloat32, size);
      const int x = b.op("quantize", {image}, "x", dtype, size,
                         quantized(0.02f, dtype == DType::kUInt8 ? 114 : -14));
      // Weights that pass the channels through, so that every byte shows.
      Tensor weights = Tensor::zeros(DType::kInt8, {3, 3, 1, 1});
      for (int64_t c = 0; c < 3; ++c) weights.data<int8_t>()[4 * c] = 1;
      const int w = b.constant("w", weights, per_channel({1, 1, 1}, 0));
      b.output(b.op("conv", {x, w, -1}, "y", dtype, size,
                    quantized(0.02f, dtype == DType::kUInt8 ? 114 : -14),
                    {{"stride", ints({1, 1})},
                     {"padding", ints({0, 0})},
                     {"dilation", ints({1, 1})},
                     {"groups", int64_t{1}}}));
      const Program program = b.finish();
      const Tensor input = random_floats(size, -3, 4);
      const Tensor ours = Session(with_one_segment(program, "onednn"), 3).run({input})[0];
      const Tensor expected = Session(with_one_segment(program, "reference"), 1).run({input})[0];
      CHECK(std::equal(ours.raw(), ours.raw() + ours.nbytes(), expected.raw()));
    }
  }
}

TEST_CASE("oneDNN: two sessions run at the same time", "[backends][onednn]") {
  const Program program = with_one_segment(residual_program(DType::kUInt8), "onednn");
  const std::vector<Tensor> inputs = {random_floats({2, 3, 16, 16}, -2, 2, 5)};
  Session reference(program, 1);
  const std::vector<Tensor> expected = reference.run(inputs);
  std::vector<int> failures(2);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      Session session(program, 1);
      for (int i = 0; i < 20; ++i)
        failures[t] += !std::equal(expected[0].raw(), expected[0].raw() + expected[0].nbytes(),
                                   session.run(inputs)[0].raw());
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<int>{0, 0});
}

TEST_CASE("oneDNN: what moves data only, and an output that is an input's alias, is copied out",
          "[backends][onednn]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kUInt8, {2, 3, 4}, quantized(0.1f, 3));
  const int y = b.op("permute", {x}, "y", DType::kUInt8, {4, 2, 3}, quantized(0.1f, 3),
                     {{"dims", ints({2, 0, 1})}});
  const int z = b.op("reshape", {y}, "z", DType::kUInt8, {24}, quantized(0.1f, 3));
  const int c = b.op("copy", {x}, "c", DType::kUInt8, {2, 3, 4}, quantized(0.1f, 3));
  b.output(y);
  b.output(z);
  b.output(c);
  CHECK(check_against_reference(b.finish(), "onednn",
                                {random_integers(DType::kUInt8, {2, 3, 4})}) == 0);
}

TEST_CASE("oneDNN: products read transposed and moved operands inside a segment",
          "[backends][onednn]") {
  for (DType dtype : {DType::kFloat32, DType::kUInt8, DType::kInt8}) {
    const bool is_float = dtype == DType::kFloat32;
    const int zero_point = dtype == DType::kUInt8 ? 120 : -8;
    const std::optional<TensorQParams> in =
        is_float ? std::optional<TensorQParams>() : quantized(0.02f, zero_point);
    ProgramBuilder b;
    const int q = b.input("q", dtype, {2, 5, 4, 16}, in);
    const int k = b.input("k", dtype, {2, 5, 4, 16}, in);
    const int qt =
        b.op("permute", {q}, "qt", dtype, {2, 4, 5, 16}, in, {{"dims", ints({0, 2, 1, 3})}});
    const int kt =
        b.op("permute", {k}, "kt", dtype, {2, 4, 16, 5}, in, {{"dims", ints({0, 2, 3, 1})}});
    const int ks =
        b.op("permute", {kt}, "ks", dtype, {2, 4, 5, 16}, in, {{"dims", ints({0, 1, 3, 2})}});
    const int copied = b.op("reshape", {ks}, "copied", dtype, {8, 5, 16}, in);
    const int transposed =
        b.op("permute", {copied}, "transposed", dtype, {8, 16, 5}, in, {{"dims", ints({0, 2, 1})}});
    const int rows = b.op("reshape", {qt}, "rows", dtype, {8, 5, 16}, in);
    const std::optional<TensorQParams> out =
        is_float ? std::optional<TensorQParams>() : quantized(0.3f, zero_point);
    b.output(b.op("matmul", {qt, kt}, "scores", dtype, {2, 4, 5, 5}, out));
    b.output(b.op("matmul", {rows, transposed}, "again", dtype, {8, 5, 5}, out));
    CAPTURE(name_of(dtype));
    const std::vector<Tensor> inputs =
        is_float ? std::vector<Tensor>{random_floats({2, 5, 4, 16}),
                                       random_floats({2, 5, 4, 16}, -1, 1, 2)}
                 : std::vector<Tensor>{random_integers(dtype, {2, 5, 4, 16}),
                                       random_integers(dtype, {2, 5, 4, 16}, 2)};
    CHECK(check_against_reference(b.finish(), "onednn", inputs) <= (is_float ? 1e-4 : 1));
  }
}

TEST_CASE("oneDNN: a refusal says why", "[backends][onednn]") {
  ProgramBuilder embedding;
  const int table = embedding.constant("table", random_floats({5, 4}));
  const int index = embedding.input("index", DType::kInt64, {3});
  embedding.output(embedding.op("embedding", {table, index}, "y", DType::kFloat32, {3, 4}));
  CHECK(refusal(embedding.finish(), "onednn").value_or("") == "y: oneDNN has no embedding");

  ProgramBuilder dynamic;
  const int x = dynamic.input("x", DType::kFloat32, {2, 4});
  const int w = dynamic.input("w", DType::kFloat32, {3, 4});
  dynamic.output(dynamic.op("linear", {x, w, -1}, "y", DType::kFloat32, {2, 3}));
  CHECK(refusal(dynamic.finish(), "onednn").value_or("") == "y: the weight is not constant");

  ProgramBuilder wide;
  const int v = wide.input("v", DType::kFloat64, {2});
  wide.output(wide.op("clamp", {v}, "y", DType::kFloat64, {2}, {}, {{"min", 0.0}}));
  CHECK(refusal(wide.finish(), "onednn").value_or("") ==
        "y: oneDNN kernels here take float32, uint8, int8 and int16, got float64");
}

TEST_CASE("oneDNN: the backend names the linked library", "[backends][onednn]") {
  CHECK(make_backend("onednn")->versions().count("onednn") == 1);
  CHECK(make_support("onednn")->versions() == make_backend("onednn")->versions());
}

// The forms of reshape: dimensions cut, joined, both, and of size 1 anywhere; of rows, of a slice
// between other elements, of columns.
TEST_CASE("oneDNN: a reshape of what lies in memory with gaps or in another order",
          "[backends][onednn]") {
  for (const Shape& shape : {Shape{4, 6, 8}, Shape{4, 1, 2, 3, 8}, Shape{24, 8}, Shape{1, 4, 3, 16},
                             Shape{2, 2, 48}, Shape{1, 192, 1}}) {
    for (bool is_permuted : {false, true}) {
      CAPTURE(shape, is_permuted);
      ProgramBuilder b;
      const std::vector<int> of_x = {
          b.input("x", DType::kFloat32, is_permuted ? Shape{4, 8, 9} : Shape{4, 9, 8})};
      const Shape rows = {4, 9, 8};
      std::vector<int> whole = of_x;
      if (is_permuted)
        whole = {b.op("permute", of_x, "turned", DType::kFloat32, rows, {},
                      {{"dims", ints({0, 2, 1})}})};
      const std::vector<int> part = {
          b.op("slice", whole, "part", DType::kFloat32, {4, 6, 8}, {},
               {{"dim", int64_t{1}}, {"start", int64_t{2}}, {"step", int64_t{1}}})};
      const std::vector<int> cut = {b.op("reshape", part, "cut", DType::kFloat32, shape)};
      b.output(b.op("unary", cut, "y", DType::kFloat32, shape, {}, {{"fn", std::string("abs")}}));
      CHECK(check_against_reference(
                b.finish(), "onednn",
                {random_floats(is_permuted ? Shape{4, 8, 9} : Shape{4, 9, 8})}) == 0);
    }
  }
}

TEST_CASE("oneDNN: an error names the op that a segment cannot be compiled for",
          "[backends][onednn]") {
  const auto error_of_middle = [](const std::string& kind, Attributes attributes) {
    ProgramBuilder b;
    const std::vector<int> x{b.input("x", DType::kFloat32, {1, 4, 6, 6})};
    const std::vector<int> first{
        b.op("clamp", x, "first", DType::kFloat32, {1, 4, 6, 6}, {}, {{"min", 0.0}})};
    std::vector<int> inputs = first;
    // of 5 channels, where there are 4
    if (kind == "conv") inputs.push_back(b.constant("w", random_floats({4, 5, 1, 1})));
    const std::vector<int> middle{
        b.op(kind, inputs, "middle", DType::kFloat32, {1, 4, 6, 6}, {}, std::move(attributes))};
    b.output(b.op("clamp", middle, "last", DType::kFloat32, {1, 4, 6, 6}, {}, {{"max", 2.0}}));
    const Program program = with_one_segment(b.finish(), "onednn");
    try {
      make_backend("onednn")->compile(program, program.segments[0], 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no Error");
  };
  CHECK_THAT(
      error_of_middle("unary", {{"fn", std::string("curl")}}),
      Catch::StartsWith("onednn: middle: oneDNN ") &&
          Catch::EndsWith(" does not take it: unknown fn \"curl\"; lower the program again"));
  CHECK_THAT(error_of_middle("conv", {}),
             Catch::StartsWith("onednn: middle: oneDNN ") &&
                 Catch::Contains("weight [4, 5, 1, 1] does not fit 4 input channels"));
  CHECK_THAT(error_of_middle("sort", {}),
             Catch::StartsWith("onednn: middle: oneDNN ") &&
                 Catch::EndsWith("oneDNN has no sort; lower the program again"));
}

}  // namespace octet
