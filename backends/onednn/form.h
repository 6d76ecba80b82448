// How a tensor is kept inside a segment: where, of which type, in which order, with which scale and
// zero point. It may differ from what the Program declares (channels-last, u8 for s8), but stands
// for the same reals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

// The same elements with more dimensions, of size 1, in front.
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

// The op cannot run here; the reason reaches the user through the Verdict.
struct Refusal {
  std::string reason;
};

}  // namespace octet::onednn
