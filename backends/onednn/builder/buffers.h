// The memory of a segment under construction: buffers whose addresses are planned afterwards.
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
  // kArena: the part of another buffer that it is; none when its buffer is -1
  Place inside = {};
};

class Buffers {
 public:
  // A new buffer for an op's result.
  Stored allocate(const Dims& shape, const QuantParams& quant_params, const Dims& strides);
  // Memory of the segment's caller: its input or output at `position`, row-major.
  Stored add_external(BufferKind kind, const Dims& shape, const QuantParams& quant_params,
                      int position);

  Stored add_constant(const Dims& shape, const QuantParams& quant_params, const Dims& strides,
                      std::shared_ptr<void> data);
  Stored add_floats(const std::vector<float>& values);  // 1-D
  Stored add_integers(const std::vector<int32_t>& values);
  // A constant of ready bytes.
  Place add_bytes(std::shared_ptr<void> bytes, int64_t count);

  // From now on what was made in a buffer of its own is made at `part`, in memory of another
  // buffer: true. False when the elements would lie in another order, or the buffer is not the
  // tensor's alone.
  bool place_inside(const Stored& made, const Stored& part);
  // As place_inside, in the output at `position`, for a tensor that fills its buffer.
  bool place_in_output(const Stored& made, int position);
  // Where the elements are, when the buffer is part of another one.
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
