// How a tensor is kept inside a segment: where, of which type, in which order, with which scale and
// zero point. This may differ from what the Program declares (channels-last, u8 for s8); the reals
// are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/kernels/vector_math.h"
#include "backends/onednn/functions.h"
#include "core/base/dtype.h"

namespace octet::onednn {

using Dims = std::vector<int64_t>;
using ElementType = dnnl::memory::data_type;

// f32, u8, s8, s32 have one; any other dtype throws Refusal.
ElementType element_type(DType dtype);
int64_t bytes_of(ElementType type);  // 1 or 4

// New memory for `bytes` (at least one), not initialized, that begins at a multiple of 64 and ends
// at one.
std::shared_ptr<std::byte> aligned_block(int64_t bytes);

// A buffer of the segment, and a byte offset into it.
struct Place {
  int buffer = -1;
  int64_t offset = 0;
  bool operator==(const Place&) const = default;
};

// Type, scale and zero point. Floats: scale 1, zero point 0.
struct QuantParams {
  ElementType type = ElementType::f32;
  float scale = 1;
  int zero_point = 0;
  bool operator==(const QuantParams&) const = default;
  bool is_integer() const { return type != ElementType::f32; }
  int lowest() const { return type == ElementType::s8 ? -128 : 0; }  // of u8 and s8
  int highest() const { return type == ElementType::s8 ? 127 : 255; }
};

// u8 or s8 as u8 with its zero point shifted; f32 stays.
QuantParams as_unsigned(QuantParams quant_params);

struct Stored {
  Place place;
  QuantParams quant_params;
  Dims shape;
  Dims strides;  // in elements; 0 repeats
  int64_t numel() const;
  // One element without dimensions has one: to oneDNN a memory of none is empty.
  dnnl::memory::desc desc() const {
    return shape.empty() ? dnnl::memory::desc({1}, quant_params.type, dnnl::memory::dims{1})
                         : dnnl::memory::desc(shape, quant_params.type, strides);
  }
};

// Adds dimensions of size 1 in front.
Stored with_rank(Stored stored, size_t rank);

Dims row_major(const Dims& shape);
// [N, C, spatial...] with C innermost; row-major for ranks other than 3, 4 and 5.
Dims channels_last(const Dims& shape);
// Equal but for dimensions of size 1.
bool same_strides(const Dims& shape, const Dims& a, const Dims& b);
// Elements without gaps or repeats, in some order.
bool is_dense(const Dims& shape, const Dims& strides);
// Strides of a tensor of `shape` whose dimensions nest in the same order as those of `like`,
// without gaps.
Dims dense_like(const Dims& shape, const Dims& like);

// "u8 nhwc", "f32 rows", "f32 strided": element type, and the order when it has a name.
std::string to_text(const Stored& stored);

// ---- real numbers in the integer steps of a quantized tensor

// The clamp of an op's output in real units; a missing bound is unbounded.
struct Clamp {
  std::optional<double> min;
  std::optional<double> max;
  bool is_needed() const { return min || max; }
};

// The clamp in integers: [lowest, highest] of the type, narrowed. Requires an integer type.
struct StepRange {
  int low;
  int high;
};
StepRange clamp_in_steps(const QuantParams& quant_params, const Clamp& clamp);
// round_half_even(real / scale) + zero point, clamped to the type.
int quantize_one(double real, const QuantParams& quant_params);
// What the kernels of backends/kernels read and write: the scale of bytes, nothing for floats.
std::optional<ByteScale> byte_scale_of(const QuantParams& quant_params);
// How they write y; `range`: part of the type's.
ByteOutput byte_output_of(const QuantParams& y, const StepRange& range);

// What turns sums of products of bytes into bytes: low <= round(sum * scale + bias) <= high, all in
// steps of the output as u8, its zero point in `bias`.
struct ByteScales {
  std::vector<float> scale;  // one per channel
  std::vector<float> bias;   // one per channel
  uint8_t padding = 0;       // the byte that pads the input: its zero point
  uint8_t low = 0, high = 255;
  bool is_signed = false;  // the output is s8: 128 is taken off in the end
  // the scale of a tensor that is added; its zero point is in `bias`
  float residual = 0;
};

// The op cannot run here; the reason reaches the user through the Verdict.
struct Refusal {
  std::string reason;
};

}  // namespace octet::onednn
