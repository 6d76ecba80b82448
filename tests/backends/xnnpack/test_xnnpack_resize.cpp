// Compares the custom kernel that resizes images with the reference, in every mode, dtype and
// memory order.
#include <catch2/catch.hpp>

#include <limits>

#include "backends/conformance/program_builder.h"

namespace octet::test_xnnpack_resize {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kU8 = DType::kUInt8;
constexpr DType kS8 = DType::kInt8;

std::optional<TensorQParams> qparams_of(DType dtype, float scale) {
  return dtype == kF32 ? std::nullopt : std::optional(quantized(scale, 7));
}

// By the scales that the sizes give.
std::vector<double> scales_of(const std::vector<int64_t>& in, const std::vector<int64_t>& out,
                              bool aligns) {
  std::vector<double> scales;
  for (size_t d = 2; d < in.size(); ++d)
    scales.push_back(!aligns      ? static_cast<double>(in[d]) / static_cast<double>(out[d])
                     : out[d] > 1 ? static_cast<double>(in[d] - 1) / static_cast<double>(out[d] - 1)
                                  : 0.0);
  return scales;
}

double difference(const std::string& mode, DType from, DType to, const std::vector<int64_t>& in,
                  const std::vector<int64_t>& out, const std::vector<double>& scales,
                  bool aligns = false, bool is_channels_last = false, float out_scale = 0.05f) {
  ProgramBuilder b;
  int x = b.input("x", from, in, qparams_of(from, 0.05f));
  if (is_channels_last) {
    const std::vector<int> inputs{x};
    x = b.op("max_pool", inputs, "p", from, in, qparams_of(from, 0.05f),
             {{"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}, {"padding", ints({1, 1})}});
  }
  const std::vector<int> inputs{x};
  b.output(b.op("upsample", inputs, "y", to, out, qparams_of(to, out_scale),
                {{"mode", mode}, {"scales", scales}, {"align_corners", aligns}}));
  return check_against_reference(b.finish(), "xnnpack",
                                 {from == kF32 ? random_floats(in) : random_integers(from, in)});
}

TEST_CASE("XNNPACK: images at any size, by every mode", "[backends][xnnpack]") {
  const std::vector<int64_t> in{2, 5, 7, 9};
  for (const char* mode :
       {"nearest", "nearest_exact", "bilinear", "bicubic", "bilinear_aa", "bicubic_aa"})
    for (const std::vector<int64_t>& out :
         {std::vector<int64_t>{2, 5, 13, 10}, {2, 5, 3, 4}, {2, 5, 1, 1}})
      for (bool aligns : {false, true})
        for (bool is_channels_last : {false, true})
          for (DType dtype : {kF32, kS8, kU8}) {
            if (aligns && std::string(mode) != "bilinear" && std::string(mode) != "bicubic")
              continue;
            CAPTURE(mode, out, aligns, is_channels_last, name_of(dtype));
            CHECK(difference(mode, dtype, dtype, in, out, scales_of(in, out, aligns), aligns,
                             is_channels_last) <= (dtype == kF32 ? 1e-5 : 1));
          }
}

TEST_CASE("XNNPACK: sequences and volumes at any size, by explicit scales too",
          "[backends][xnnpack]") {
  for (DType dtype : {kF32, kS8}) {
    const double most = dtype == kF32 ? 1e-5 : 1;
    CHECK(difference("linear", dtype, dtype, {2, 3, 10}, {2, 3, 17}, {10.0 / 17}) <= most);
    CHECK(difference("nearest", dtype, dtype, {2, 3, 10}, {2, 3, 25}, {0.4}) <= most);
    CHECK(difference("trilinear", dtype, dtype, {1, 2, 3, 4, 5}, {1, 2, 7, 3, 8},
                     {3.0 / 7, 4.0 / 3, 5.0 / 8}) <= most);
    CHECK(difference("bilinear", dtype, dtype, {1, 4, 8, 8}, {1, 4, 12, 12}, {0.6, 0.7}) <= most);
  }
}

TEST_CASE("XNNPACK: images at other sizes between bytes and floats, and at other scales",
          "[backends][xnnpack]") {
  const std::vector<int64_t> in{1, 3, 6, 5}, out{1, 3, 11, 8};
  for (bool is_channels_last : {false, true}) {
    const std::vector<double> scales = scales_of(in, out, false);
    CHECK(difference("bilinear", kS8, kF32, in, out, scales, false, is_channels_last) < 1e-4);
    CHECK(difference("bilinear", kF32, kU8, in, out, scales, false, is_channels_last) <= 1);
    CHECK(difference("bicubic", kS8, kS8, in, out, scales, false, is_channels_last, 0.08f) <= 1);
  }
}

TEST_CASE("XNNPACK: images of many channels at other sizes", "[backends][xnnpack]") {
  const std::vector<int64_t> in{2, 19, 6, 5}, out{2, 19, 11, 8};
  for (const char* mode : {"nearest_exact", "bilinear", "bicubic", "bicubic_aa"})
    for (bool is_channels_last : {false, true}) {
      CAPTURE(mode, is_channels_last);
      const std::vector<double> scales = scales_of(in, out, false);
      CHECK(difference(mode, kF32, kF32, in, out, scales, false, is_channels_last) <= 1e-5);
      CHECK(difference(mode, kS8, kS8, in, out, scales, false, is_channels_last, 0.08f) <= 1);
      CHECK(difference(mode, kU8, kF32, in, out, scales, false, is_channels_last) <= 1e-4);
    }
  CHECK(difference("linear", kS8, kS8, {2, 16, 10}, {2, 16, 17}, {10.0 / 17}) <= 1);
}

TEST_CASE("XNNPACK: sizes and modes that do not fit are refused", "[backends][xnnpack]") {
  const auto refused = [](const std::string& mode, const std::vector<int64_t>& out,
                          const std::vector<double>& scales) {
    ProgramBuilder b;
    const std::vector<int> inputs{b.input("x", kF32, {1, 2, 4, 4})};
    b.output(b.op("upsample", inputs, "y", kF32, out, {}, {{"mode", mode}, {"scales", scales}}));
    return refusal(b.finish(), "xnnpack").has_value();
  };
  CHECK_FALSE(refused("bicubic", {1, 2, 6, 6}, {0.6, 0.6}));
  CHECK(refused("trilinear", {1, 2, 6, 6}, {0.6, 0.6}));
  CHECK(refused("bicubic", {1, 3, 6, 6}, {0.6, 0.6}));
  CHECK(refused("bicubic", {1, 2, 6, 6}, {0.6}));
  CHECK(refused("bicubic", {1, 2, 6, 6}, {-0.6, 0.6}));
  CHECK(refused("nearest", {1, 2, 6, 6}, {0.6, std::numeric_limits<double>::quiet_NaN()}));
  CHECK(refused("bilinear_aa", {1, 2, 6, 6}, {1e6, 0.6}));
}

}  // namespace octet::test_xnnpack_resize
