// Weight-only linears on the backends that share their kernel: results, and one copy of the packed
// weights for all sessions of a program.
#include <malloc.h>

#include <algorithm>
#include <tuple>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/kernels/weight_product.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/half.h"
#include "lowering/program/stored_constant.h"
#include "tests/backends/small_programs.h"

namespace octet {
namespace {

constexpr int64_t kOut = 2048, kIn = 1024;

// x[rows, 1024] times 4-bit weights in groups of 32: 1 MB as packed, 8 MB as floats.
Program linear(int64_t rows, const std::string& backend) {
  ProgramBuilder b;
  const std::vector<int64_t> blocks = {kOut, kIn / 32};
  const Tensor scale = Tensor::from<float>(
      DType::kFloat32, blocks, random_scales(static_cast<size_t>(blocks[0] * blocks[1])));
  const int x = b.input("x", DType::kFloat32, {rows, kIn});
  const int w = b.constant(
      "w", StoredConstant{random_integers(DType::kInt8, {kOut, kIn}, 2, -8, 7), scale, Tensor()});
  b.output(b.op("linear", {x, w}, "y", DType::kFloat32, {rows, kOut}));
  return with_one_segment(b.finish(), backend);
}

size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

bool has(const std::string& backend) {
  const std::vector<std::string> names = backend_names();
  return std::find(names.begin(), names.end(), backend) != names.end();
}

double in_bfloat(float value) { return bfloat_to_float(float_to_bfloat(value)); }

}  // namespace

TEST_CASE("weight-only linears on many rows equal the reference", "[backends][weight_only]") {
  for (const char* backend : {"onednn", "xnnpack"})
    for (const auto& [dtype, low, high] : {std::tuple{DType::kInt8, -8, 7},
                                           {DType::kUInt8, 0, 15},
                                           {DType::kInt8, -4, 3},
                                           {DType::kUInt8, 0, 3},
                                           {DType::kInt8, -128, 127}})
      for (const bool has_zero_points : {false, true})
        for (const int64_t rows : {1, 3, 5, 8, 13, 31}) {
          if (!has(backend)) continue;
          CAPTURE(backend, low, high, has_zero_points, rows);
          const auto difference = [&](int64_t in, int64_t out, int64_t groups) {
            ProgramBuilder b;
            const std::vector<int64_t> blocks = {out, groups};
            std::vector<float> scales = random_scales(static_cast<size_t>(out * groups));
            if (rows % 2 == 1)  // the kernel reads these in 16 bits
              for (float& scale : scales) scale = bfloat_to_float(float_to_bfloat(scale));
            const Tensor scale = narrowed(Tensor::from<float>(DType::kFloat32, blocks, scales));
            const int x = b.input("x", DType::kFloat32, {rows, in});
            const int w = b.constant(
                "w", StoredConstant{random_integers(dtype, {out, in}, 2, low, high), scale,
                                    has_zero_points ? random_floats(blocks, -3, 9, 7) : Tensor()});
            b.output(b.op("linear", {x, w, b.constant("b", random_floats({out}))}, "y",
                          DType::kFloat32, {rows, out}));
            return check_against_reference(b.finish(), backend,
                                           {random_floats({rows, in}, -1, 1, 3)});
          };
          const double tolerance = high == 127 ? 5e-4 : 5e-5;
          CHECK(difference(600, 100, 2) <= tolerance);  // several blocks, a part of a panel
          CHECK(difference(320, 48, 10) <= tolerance);
          CHECK(difference(75, 7, 1) <= tolerance);
          CHECK(difference(105, 50, 3) <= tolerance);  // a word across the end of a group
        }
}

TEST_CASE("products of many rows in bfloat16 round both factors, and sums are floats",
          "[backends][weight_only]") {
  struct Sizes {
    int64_t in, out, groups;
  };
  const Parallel one_thread([](void*, int64_t count, int64_t, Parallel::Part part,
                               const void* context) { part(context, 0, count); },
                            nullptr, 1);
  for (const Sizes size : {Sizes{600, 100, 2}, {320, 48, 10}, {76, 7, 2}})
    for (const int64_t high : {7, 127})
      for (const int64_t rows : {5, 8, 13}) {
        CAPTURE(size.in, high, rows);
        ProgramBuilder b;
        const std::vector<int64_t> blocks = {size.out, size.groups};
        const std::vector<float> scales(static_cast<size_t>(size.out * size.groups), 0.0625f);
        const Tensor integers =
            random_integers(DType::kInt8, {size.out, size.in}, 2, -high - 1, high);
        const int index = b.constant(
            "w", StoredConstant{integers, Tensor::from<float>(DType::kFloat32, blocks, scales),
                                Tensor()});
        const ProgramTensor& w = b.unfinished().tensor(index);
        if (!has_weight_product(w, rows)) return;
        const WeightProduct product = weight_product(w, rows, true);
        if (!product.is_bfloat) return;  // the CPU lacks the instruction
        const Tensor x = random_floats({rows, size.in}), bias = random_floats({size.out});
        const Tensor packed = pack_weights(w);
        Tensor y = Tensor::zeros(DType::kFloat32, {rows, size.out});
        std::vector<std::byte> scratch(static_cast<size_t>(product.scratch_bytes()));
        const std::vector<const std::byte*> from = {x.raw(), packed.raw(), bias.raw()};
        product.run(from, y.raw(), scratch.data(), one_thread);
        double worst = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t n = 0; n < size.out; ++n) {
            double sum = bias.data<float>()[n];
            for (int64_t k = 0; k < size.in; ++k)
              sum += in_bfloat(x.data<float>()[r * size.in + k]) *
                     in_bfloat(0.0625f * integers.data<int8_t>()[n * size.in + k]);
            worst = std::max(worst, std::abs(sum - y.data<float>()[r * size.out + n]));
          }
        CHECK(worst <= (high == 127 ? 5e-4 : 5e-5));
      }
}

TEST_CASE("a duplicate shares the packed weights of weight-only linears", "[backends][session]") {
  for (const char* backend : {"onednn", "xnnpack"})
    for (const int64_t rows : {1, 40}) {
      if (!has(backend)) continue;
      CAPTURE(backend, rows);
      const Program program = linear(rows, backend);
      if (!has_weight_product(program.tensor(program.ops[0].inputs[1]), rows)) continue;
      const Tensor x = random_floats({rows, kIn});
      Session first(program);
      const std::vector<Tensor> y = first.run({x});
      const size_t before = allocated();
      Session second = first.duplicate();
      // its inputs and outputs are its own
      CHECK(allocated() < before + 100'000 + static_cast<size_t>(rows * (kIn + kOut) * 4));
      CHECK(floats_of(second.run({x})[0]) == floats_of(y[0]));
    }
}

}  // namespace octet
