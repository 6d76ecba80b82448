// Compares the custom kernels of group norms, and of batch norms that are not fused into
// convolutions, with the reference.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet::test_xnnpack_norms {

using Shape = std::vector<int64_t>;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kS8 = DType::kInt8;
constexpr DType kU8 = DType::kUInt8;

double tolerance(DType out) { return out == kF32 ? 2e-5 : 1; }

TEST_CASE("XNNPACK: group norms of floats and bytes, with and without weights",
          "[backends][xnnpack]") {
  for (const Shape& shape : {Shape{2, 6, 5, 7}, {1, 8, 133}, {3, 4}, {1, 2, 3, 4, 5}})
    for (const int64_t groups : {int64_t{1}, int64_t{2}, shape[1]})
      for (const DType in : {kF32, kS8, kU8})
        for (const DType out : {kF32, kS8, kU8})
          for (const bool has_weights : {true, false}) {
            if (shape.size() == 2 && groups == shape[1]) continue;  // of one element each
            ProgramBuilder b;
            const int x = b.input("x", in, shape, qparams_of(in, 0.02f, -5));
            const int w = has_weights ? b.constant("w", random_floats({shape[1]}, -1, 2, 4)) : -1;
            const int bias =
                has_weights ? b.constant("b", random_floats({shape[1]}, -1, 1, 5)) : -1;
            b.output(b.op("group_norm", {x, w, bias}, "y", out, shape, qparams_of(out, 0.03f, 9),
                          {{"groups", groups}, {"eps", 1e-4}}));
            CAPTURE(shape, groups, name_of(in), name_of(out), has_weights);
            CHECK(check_against_reference(b.finish(), "xnnpack", {random_elements(in, shape)}) <=
                  tolerance(out));
          }
}

TEST_CASE("XNNPACK: batch norms of floats and bytes, in both memory orders",
          "[backends][xnnpack]") {
  for (const bool is_channels_last : {false, true})
    for (const DType in : {kF32, kS8, kU8})
      for (const DType out : {kF32, kS8, kU8})
        for (const bool has_weights : {true, false}) {
          const Shape shape{2, 6, 5, 7};
          ProgramBuilder b;
          int x = b.input("x", in, shape, qparams_of(in, 0.02f, -5));
          if (is_channels_last)
            x = b.op("max_pool", {x}, "p", in, shape, qparams_of(in, 0.02f, -5),
                     {{"kernel_size", ints({3, 3})},
                      {"stride", ints({1, 1})},
                      {"padding", ints({1, 1})}});
          std::vector<int> inputs{x, b.constant("mean", random_floats({6}, -1, 1, 6)),
                                  b.constant("variance", random_floats({6}, 0.2f, 2, 7))};
          if (has_weights) {
            inputs.push_back(b.constant("w", random_floats({6}, -1, 2, 4)));
            inputs.push_back(b.constant("b", random_floats({6}, -1, 1, 5)));
          }
          b.output(b.op("batch_norm", inputs, "y", out, shape, qparams_of(out, 0.03f, 9),
                        {{"eps", 1e-4}}));
          CAPTURE(is_channels_last, name_of(in), name_of(out), has_weights);
          CHECK(check_against_reference(b.finish(), "xnnpack", {random_elements(in, shape)}) <=
                tolerance(out));
        }
}

TEST_CASE("XNNPACK: norms whose parameters are not constants are refused", "[backends][xnnpack]") {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 6, 5}), w = b.input("w", kF32, {6});
  b.output(b.op("group_norm", {x, w, -1}, "y", kF32, {2, 6, 5}, {}, {{"groups", int64_t{2}}}));
  CHECK(refusal(b.finish(), "xnnpack") == "y: its parameters are not constant floats");
}

}  // namespace octet::test_xnnpack_norms
