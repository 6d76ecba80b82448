// Segments of several ops on XNNPACK: memory orders, u8 inputs and outputs, reuse, threads, and
// refusals.
#include <algorithm>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/xnnpack/backend.h"
#include "backends/xnnpack/form.h"
#include "backends/xnnpack/library.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr DType kU8 = DType::kUInt8;
constexpr DType kS8 = DType::kInt8;

int conv3x3(ProgramBuilder& b, int x, const std::string& name, DType dtype,
            const std::vector<int64_t>& in, int64_t outputs, TensorQParams q, uint32_t seed) {
  const int w =
      b.constant(name + ".w", random_integers(kS8, {outputs, in[1], 3, 3}, seed, -127, 127),
                 per_channel(random_scales(static_cast<size_t>(outputs)), 0));
  return b.op("conv", {x, w, -1}, name, dtype, {in[0], outputs, in[2], in[3]}, q,
              {{"stride", ints({1, 1})},
               {"padding", ints({1, 1})},
               {"dilation", ints({1, 1})},
               {"groups", int64_t{1}},
               {"post_min", 0.0}});
}

// Steps may add up where an op reads another's rounded output; this is the limit for a chain of two
// or three.
constexpr double kChainSteps = 3;

}  // namespace

TEST_CASE("a copy between memory orders moves every element, whatever their size and number",
          "[backends][xnnpack]") {
  for (int64_t rows : {1, 2, 3, 8, 11, 40})
    for (int64_t columns : {1, 3, 7, 50, 67})
      for (size_t size : {1, 2, 4, 8})
        for (bool flip : {false, true}) {
          if (flip && size > 1) continue;
          CAPTURE(rows, columns, size, flip);
          const int64_t batch = 2, count = batch * rows * columns;
          const Tensor from = random_integers(kS8, {count * static_cast<int64_t>(size)}, 3);
          std::vector<std::byte> to(static_cast<size_t>(count) * size);
          xnnpack::run({batch, rows, columns, size, flip}, from.raw(), to.data());
          int64_t wrong = 0;
          for (int64_t i = 0; i < count; ++i) {
            const int64_t b = i / (rows * columns), r = i / columns % rows, c = i % columns;
            const std::byte* got =
                to.data() + ((b * columns + c) * rows + r) * static_cast<int64_t>(size);
            for (size_t k = 0; k < size; ++k)
              wrong += (got[k] ^ (flip ? std::byte{0x80} : std::byte{0})) !=
                       from.raw()[static_cast<size_t>(i) * size + k];
          }
          CHECK(wrong == 0);
        }
}

TEST_CASE("XNNPACK: a residual network block with a classifier runs as one segment",
          "[backends][xnnpack]") {
  for (DType dtype : {kS8, kU8}) {
    const int z = dtype == kU8 ? 128 : 0;
    ProgramBuilder b;
    const std::vector<int64_t> shape{2, 8, 6, 6};
    const int f = b.input("f", DType::kFloat32, shape);
    const int x = b.op("quantize", {f}, "x", dtype, shape, quantized(0.01f, z));
    const int a = conv3x3(b, x, "a", dtype, shape, 8, quantized(0.05f, z), 1);
    const int c = conv3x3(b, a, "c", dtype, shape, 8, quantized(0.3f, z), 2);
    const int s = b.op("add", {c, x}, "s", dtype, shape, quantized(0.3f, z), {{"post_min", 0.0}});
    const int m = b.op("mean", {s}, "m", dtype, {2, 8, 1, 1}, quantized(0.1f, z),
                       {{"dims", ints({-1, -2})}, {"keepdim", true}});
    const int r = b.op("reshape", {m}, "r", dtype, {2, 8}, quantized(0.1f, z));
    const int w = b.constant("w", random_integers(kS8, {5, 8}, 3, -127, 127),
                             per_channel(random_scales(5), 0));
    const int y = b.op("linear", {r, w, -1}, "y", dtype, {2, 5}, quantized(0.05f, z));
    b.output(b.op("dequantize", {y}, "out", DType::kFloat32, {2, 5}));
    b.output(c);
    CHECK(check_against_reference(b.finish(), "xnnpack", {random_floats(shape)}) <= kChainSteps);
  }
}

TEST_CASE("XNNPACK: a flatten of pixels goes through row-major order", "[backends][xnnpack]") {
  ProgramBuilder b;
  const std::vector<int64_t> shape{2, 3, 4, 4};
  const int x = b.input("x", kU8, shape, quantized(0.02f, 120));
  const int a = conv3x3(b, x, "a", kU8, shape, 6, quantized(0.05f, 3), 1);
  const int r = b.op("reshape", {a}, "r", kU8, {2, 96}, quantized(0.05f, 3));
  const int w = b.constant("w", random_integers(kS8, {5, 96}, 3, -127, 127), quantized(0.004f, 0));
  const int y = b.op("linear", {r, w, -1}, "y", kU8, {2, 5}, quantized(0.1f, 128));
  const int back =
      b.op("reshape", {r}, "back", kU8,
           shape.size() == 4 ? std::vector<int64_t>{2, 6, 4, 4} : shape, quantized(0.05f, 3));
  b.output(conv3x3(b, back, "c", kU8, {2, 6, 4, 4}, 4, quantized(0.2f, 0), 7));
  b.output(r);
  b.output(y);
  CHECK(check_against_reference(b.finish(), "xnnpack", {random_integers(kU8, shape, 2)}) <=
        kChainSteps);
}

TEST_CASE("XNNPACK: patches become tokens without a transposition", "[backends][xnnpack]") {
  ProgramBuilder b;
  const std::vector<int64_t> shape{1, 3, 8, 8};
  const TensorQParams q = quantized(0.05f, -3);
  const int x = b.input("x", kS8, shape, quantized(0.02f, 4));
  const int a = conv3x3(b, x, "a", kS8, shape, 10, q, 1);
  const int flat = b.op("reshape", {a}, "flat", kS8, {1, 10, 64}, q);
  const int tokens =
      b.op("permute", {flat}, "tokens", kS8, {1, 64, 10}, q, {{"dims", ints({0, 2, 1})}});
  const int w = b.constant("w", random_integers(kS8, {7, 10}, 3, -127, 127), quantized(0.004f, 0));
  b.output(b.op("linear", {tokens, w, -1}, "y", kS8, {1, 64, 7}, quantized(0.03f, 0)));
  b.output(b.op("permute", {x}, "last", kS8, {1, 8, 8, 3}, quantized(0.02f, 4),
                {{"dims", ints({0, 2, 3, 1})}}));
  CHECK(check_against_reference(b.finish(), "xnnpack", {random_integers(kS8, shape, 2)}) <=
        kChainSteps);
}

TEST_CASE("XNNPACK: a separate clamp does not change the tensor that others read",
          "[backends][xnnpack]") {
  ProgramBuilder b;
  const std::vector<int64_t> shape{1, 4, 5, 5};
  const TensorQParams q = quantized(0.05f, 3);
  const int x = b.input("x", kS8, shape, quantized(0.02f, 4));
  const int w =
      b.constant("w", random_integers(kS8, {4, 4, 1, 1}, 3, -127, 127), quantized(0.006f, 0));
  const int y = b.op("conv", {x, w, -1}, "y", kS8, shape, q,
                     {{"stride", ints({1, 1})},
                      {"padding", ints({0, 0})},
                      {"dilation", ints({1, 1})},
                      {"groups", int64_t{1}}});
  const int relu = b.op("clamp", {y}, "relu", kS8, shape, q, {{"min", 0.0}});
  b.output(y);
  b.output(b.op("add", {relu, y}, "sum", kS8, shape, quantized(0.1f, 3)));
  b.output(relu);
  CHECK(check_against_reference(b.finish(), "xnnpack", {random_integers(kS8, shape, 2)}) <= 1);
}

TEST_CASE("XNNPACK: ops whose results nothing needs are left out", "[backends][xnnpack]") {
  const TensorQParams q = quantized(0.05f, 3);
  const Attributes window = {
      {"kernel_size", ints({2, 2})}, {"stride", ints({2, 2})}, {"padding", ints({0, 0})}};
  for (const char* unread : {"max_pool", "avg_pool"}) {
    ProgramBuilder b;
    const int x = b.input("x", kU8, {1, 8, 6, 6}, q);
    const int pooled = b.op(unread, {x}, "unread", kU8, {1, 8, 3, 3}, q, window);
    b.op("add", {pooled, pooled}, "sum", kU8, {1, 8, 3, 3}, quantized(0.1f, 3));
    b.output(b.op("max_pool", {x}, "y", kU8, {1, 8, 3, 3}, q, window));
    CHECK(check_against_reference(b.finish(), "xnnpack", {random_integers(kU8, {1, 8, 6, 6})}) ==
          0);
  }
}

TEST_CASE("XNNPACK: running again with other inputs, and with threads, gives the same as fresh",
          "[backends][xnnpack]") {
  ProgramBuilder b;
  const std::vector<int64_t> shape{1, 16, 12, 12};
  const int x = b.input("x", kU8, shape, quantized(0.02f, 120));
  b.output(conv3x3(b, x, "y", kU8, shape, 24, quantized(0.2f, 100), 1));
  const Program program = with_one_segment(b.finish(), "xnnpack");
  const std::unique_ptr<CompiledSegment> one =
      XNNPACKBackend().compile(program, program.segments[0], 1);
  const std::unique_ptr<CompiledSegment> two =
      XNNPACKBackend().compile(program, program.segments[0], 2);
  for (uint32_t seed : {1, 2, 3}) {
    const std::vector<Tensor> inputs{random_integers(kU8, shape, seed)};
    std::vector<Tensor> a{Tensor::zeros(kU8, {1, 24, 12, 12})},
        c{Tensor::zeros(kU8, {1, 24, 12, 12})};
    one->run(inputs, a);
    two->run(inputs, c);
    CHECK(std::equal(a[0].data<uint8_t>(), a[0].data<uint8_t>() + a[0].numel(),
                     c[0].data<uint8_t>()));
    CHECK(std::any_of(a[0].data<uint8_t>(), a[0].data<uint8_t>() + a[0].numel(),
                      [&](uint8_t v) { return v != a[0].data<uint8_t>()[0]; }));
  }
}

TEST_CASE("XNNPACK: what it cannot run is refused with the reason", "[backends][xnnpack]") {
  const std::vector<int64_t> shape{1, 4, 5, 5};
  const TensorQParams q = quantized(0.05f, 3);
  ProgramBuilder b;
  const int x = b.input("x", kS8, shape, q);
  const int f = b.input("f", DType::kFloat32, shape);
  b.op("cumulative", {f}, "cumulative", DType::kFloat32, shape, {}, {{"fn", std::string("sum")}});
  b.op("unary", {x}, "gelu", DType::kFloat32, shape, {}, {{"fn", std::string("gelu")}});
  b.op("softmax", {x}, "softmax", DType::kFloat32, shape, {}, {{"dim", int64_t{1}}});
  b.op("add", {x, f}, "mixed", DType::kFloat32, shape);
  b.op("add", {x, x}, "far", kS8, shape, quantized(0.05f / 4000, 0));
  b.op("max_pool", {x}, "pool", kS8, shape, quantized(0.06f, 3),
       {{"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}, {"padding", ints({1, 1})}});
  b.op("permute", {x}, "permute", kS8, {5, 5, 4, 1}, quantized(0.06f, 3),
       {{"dims", ints({2, 3, 1, 0})}});
  const std::pair<const char*, const char*> reasons[] = {
      {"cumulative", "XNNPACK has no cumulative"},
      {"gelu", "input 0 is int8 and the output float32, XNNPACK wants both integer or both float"},
      {"softmax", "it reads and writes neither floats nor 8-bit integers"},
      {"mixed", "input 0 is int8 and the output float32, XNNPACK wants both integer or both float"},
      {"far", "input 0's scale is 4000 times the output's, XNNPACK takes from 0.0009766 to 256"},
      {"pool", "input and output differ in scale or zero point"},
      {"permute", "XNNPACK permutes only to move channels to the last place or back"},
  };
  const Program program = b.finish();
  const XNNPACKSupport support;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    CHECK(program.ops[i].name == reasons[i].first);
    CHECK(support.accepts(program, program.ops[i]).reason() == reasons[i].second);
  }
}

TEST_CASE("XNNPACK: an artifact's op that this library refuses is an error that says so",
          "[backends][xnnpack]") {
  ProgramBuilder b;
  const int x = b.input("x", kS8, {1, 4}, quantized(0.05f, 3));
  b.output(b.op("softmax", {x}, "y", DType::kFloat32, {1, 4}, {}, {{"dim", int64_t{1}}}));
  const Program program = with_one_segment(b.finish(), "xnnpack");
  CHECK_THROWS_WITH(
      XNNPACKBackend().compile(program, program.segments[0], 1),
      Catch::Contains(
          "cannot run softmax: it reads and writes neither floats nor 8-bit integers; lower"));
}

TEST_CASE("XNNPACK: shapes that do not fit each other are refused, not run",
          "[backends][xnnpack]") {
  const TensorQParams q = quantized(0.05f, 3);
  ProgramBuilder b;
  const int x = b.input("x", kS8, {1, 4, 5, 5}, q);
  const int w = b.constant("w", random_integers(kS8, {6, 4, 3, 3}), quantized(0.01f, 0));
  const int v = b.constant("v", random_integers(kS8, {6, 7}), quantized(0.01f, 0));
  const int bias = b.constant("bias", random_floats({5}));
  b.op("conv", {x, w, -1}, "big", kS8, {1, 6, 5, 5}, q, {{"padding", ints({0, 0})}});
  b.op("conv", {x, w, bias}, "bias", kS8, {1, 6, 3, 3}, q, {{"padding", ints({0, 0})}});
  b.op("conv", {x, w, -1}, "stride", kS8, {1, 6, 3, 3}, q, {{"stride", ints({0, 1})}});
  b.op("conv", {x, w, -1}, "groups", kS8, {1, 6, 3, 3}, q, {{"groups", int64_t{2}}});
  b.op("linear", {x, v, -1}, "linear", kS8, {1, 4, 5, 6}, q);
  b.op("add", {x, x}, "add", kS8, {1, 4, 5, 6}, q);
  b.op("max_pool", {x}, "pool", kS8, {1, 4, 9, 9}, q,
       {{"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}});
  b.op("max_pool", {x}, "outside", kS8, {1, 4, 13, 13}, q,
       {{"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}, {"padding", ints({5, 5})}});
  b.op("reshape", {x}, "reshape", kS8, {1, 4, 24}, q);
  b.op("pad", {x}, "pad", kS8, {1, 4, 5, 5}, q, {{"pads", ints({0, 0, 0, 0, 1, 1, 0, 0})}});
  const int none = b.constant("none", Tensor::zeros(kS8, {0, 4, 3, 3}), quantized(0.01f, 0));
  b.op("conv", {x, none, -1}, "empty", kS8, {1, 6, 3, 3}, q);
  const char* const reasons[] = {
      "output shape [1, 6, 5, 5], want [1, 6, 3, 3]",
      "bias [5], want [6]",
      "stride has entry 0, want 1 to 1073741824",
      "weight [6, 4, 3, 3] does not fit 4 input channels in 2 groups",
      "input [1, 4, 5, 5] does not fit weight [6, 7]",
      "input [1, 4, 5, 5] does not broadcast to [1, 4, 5, 6]",
      "output shape [1, 4, 9, 9], want [1, 4, 3, 3]",
      "a window lies outside of the input",
      "100 elements do not fit shape [1, 4, 24]",
      "output shape [1, 4, 5, 5], want [1, 4, 7, 5]",
      "none is empty",
  };
  const Program program = b.finish();
  const XNNPACKSupport support;
  for (size_t i = 0; i < program.ops.size(); ++i)
    CHECK(support.accepts(program, program.ops[i]).reason() == reasons[i]);
}

}  // namespace octet
