// Describes how a tensor is stored inside a segment: place, type, memory order, scale and zero
// point. They may differ from what the Program declares (channels-last, u8 for s8); the real values
// are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/kernels/int16_forms.h"
#include "backends/kernels/vector_math.h"
#include "backends/onednn/functions.h"
#include "core/base/dtype.h"

namespace octet::onednn {

using Dims = std::vector<int64_t>;
using ElementType = dnnl::memory::data_type;

// oneDNN has no int16. Only copies and custom kernels read it, under the name of a type of its
// size.
inline constexpr ElementType kS16 = ElementType::f16;

// Defined for f32, u8, s8, s32 and int16; throws Refusal for other dtypes.
ElementType element_type(DType dtype);
int64_t bytes_of(ElementType type);  // 1, 2 or 4

// Allocates at least `bytes` (at least one), not initialized; start and end are multiples of 64.
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
  bool is_integer() const { return type != ElementType::f32 && type != ElementType::bf16; }
  // of u8, s8 and int16
  int lowest() const { return type == kS16 ? -32768 : type == ElementType::s8 ? -128 : 0; }
  int highest() const { return type == kS16 ? 32767 : type == ElementType::s8 ? 127 : 255; }
};

// A float rounded to 16 bits. Only ops that the builder knows to read it see it
// (SegmentBuilder::float_form).
inline constexpr QuantParams kBfloat16{ElementType::bf16, 1, 0};

// u8 for u8 and s8, with the zero point shifted; floats are unchanged.
QuantParams as_unsigned(QuantParams quant_params);

struct Stored {
  Place place;
  QuantParams quant_params;
  Dims shape;
  Dims strides;  // in elements; 0 repeats
  int64_t numel() const;
  // A scalar gets one dimension, because oneDNN treats a memory without dimensions as empty.
  dnnl::memory::desc desc() const {
    return shape.empty() ? dnnl::memory::desc({1}, quant_params.type, dnnl::memory::dims{1})
                         : dnnl::memory::desc(shape, quant_params.type, strides);
  }
};

// Adds leading dimensions of size 1.
Stored with_rank(Stored stored, size_t rank);

Dims row_major(const Dims& shape);
// [N, C, spatial...] with C innermost for ranks 3, 4 and 5, else row-major.
Dims channels_last(const Dims& shape);
// Whether strides are equal, ignoring dimensions of size 1.
bool same_strides(const Dims& shape, const Dims& a, const Dims& b);
// Whether the elements have no gaps or repeats, in any order.
bool is_dense(const Dims& shape, const Dims& strides);
// Strides without gaps for `shape`, with dimensions nested as in `like`.
Dims dense_like(const Dims& shape, const Dims& like);

// "u8 nhwc", "f32 rows", "f32 strided": element type and memory order.
std::string to_text(const Stored& stored);

// ---- real values in steps of a quantized tensor

// The clamp of an op's output in real units.
struct Clamp {
  std::optional<double> min;
  std::optional<double> max;
  bool is_needed() const { return min || max; }
};

// The clamp as a subrange of an integer type.
struct StepRange {
  int low;
  int high;
};
StepRange clamp_in_steps(const QuantParams& quant_params, const Clamp& clamp);
// round_half_even(real / scale) + zero point, clamped to the type.
int quantize_one(double real, const QuantParams& quant_params);
// The scale of bytes for backends/kernels; nullopt for floats.
std::optional<ByteScale> byte_scale_of(const QuantParams& quant_params);
// As the kernels for int16 read it: f32, u8, s8 or int16.
RealForm real_form_of(const QuantParams& quant_params);
// How these kernels write y. range: part of the type's range.
ByteOutput byte_output_of(const QuantParams& y, const StepRange& range);

// Converts sums of products of bytes to bytes: clamp(round(sum * scale + bias), low, high), in
// steps of the output as u8. The bias includes the zero point.
struct ByteScales {
  std::vector<float> scale;  // one per channel
  std::vector<float> bias;   // one per channel
  uint8_t padding = 0;       // pads the input: its zero point
  uint8_t low = 0, high = 255;
  bool is_signed = false;  // the output is s8: subtracts 128 last
  // scale of the addend; its zero point is part of `bias`
  float residual = 0;
};

// Thrown when an op cannot run here. Users see the reason in the Verdict.
struct Refusal {
  std::string reason;
};

}  // namespace octet::onednn
