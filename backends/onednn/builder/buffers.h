// The memory of a segment under construction: buffers that get their addresses later, in the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/onednn/form.h"

namespace octet::onednn {

enum class BufferKind { kArena, kInput, kOutput, kConstant };

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  int64_t bytes = 0;
  int external = -1;               // kInput, kOutput: index into the segment's inputs or outputs
  std::shared_ptr<void> constant;  // kConstant: keeps the bytes alive
  // kArena: where this buffer is inside another one; Place::buffer is -1 when it is not
  Place inside = {};
};

class Buffers {
 public:
  // Allocates a buffer for the result of an op.
  Stored allocate(const Dims& shape, const QuantParams& quant_params, const Dims& strides);
  // Adds memory of the caller: the segment's input or output at `position`, row-major.
  Stored add_external(BufferKind kind, const Dims& shape, const QuantParams& quant_params,
                      int position);

  Stored add_constant(const Dims& shape, const QuantParams& quant_params, const Dims& strides,
                      std::shared_ptr<void> data);
  Stored add_floats(const std::vector<float>& values);  // 1-D
  Stored add_integers(const std::vector<int32_t>& values);
  // Adds a constant of `count` bytes in their final form.
  Place add_bytes(std::shared_ptr<void> bytes, int64_t count);

  // Places `made`, which has a separate buffer, at `part` of another buffer. Returns false when the
  // element orders differ, or when other tensors use the buffer.
  bool place_inside(const Stored& made, const Stored& part);
  // As place_inside, for the output at `position` and a tensor that fills its buffer.
  bool place_in_output(const Stored& made, int position);
  // Follows buffers that are inside other buffers.
  Place resolve(Place place) const;

  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  int add(Buffer buffer);
  Buffer& buffer_of(const Stored& stored) {
    return buffers_[static_cast<size_t>(stored.place.buffer)];
  }

  std::vector<Buffer> buffers_;
};

}  // namespace octet::onednn
