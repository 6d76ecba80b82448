// Buffers are numbered in the order in which they are added.
#include "backends/onednn/builder/buffers.h"

#include <cstring>
#include <utility>

#include "core/base/tensor.h"

namespace octet::onednn {
namespace {

std::shared_ptr<void> copy_of(const void* data, size_t bytes) {
  const std::shared_ptr<std::byte> block = aligned_block(static_cast<int64_t>(bytes));
  if (bytes > 0) std::memcpy(block.get(), data, bytes);
  return block;
}

int64_t bytes_for(const Dims& shape, const QuantParams& quant_params) {
  return product(shape) * bytes_of(quant_params.type);
}

// Whether the result fills an arena buffer by itself.
bool fills(const Stored& stored, const Buffer& buffer) {
  return buffer.kind == BufferKind::kArena && buffer.inside.buffer < 0 &&
         stored.place.offset == 0 && buffer.bytes == bytes_for(stored.shape, stored.quant_params);
}

}  // namespace

int Buffers::add(Buffer buffer) {
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

Stored Buffers::allocate(const Dims& shape, const QuantParams& quant_params, const Dims& strides) {
  const int buffer = add({BufferKind::kArena, bytes_for(shape, quant_params), -1, nullptr});
  return {{buffer, 0}, quant_params, shape, strides};
}

Stored Buffers::add_external(BufferKind kind, const Dims& shape, const QuantParams& quant_params,
                             int position) {
  const int buffer = add({kind, bytes_for(shape, quant_params), position, nullptr});
  return {{buffer, 0}, quant_params, shape, row_major(shape)};
}

Stored Buffers::add_constant(const Dims& shape, const QuantParams& quant_params,
                             const Dims& strides, std::shared_ptr<void> data) {
  return {add_bytes(std::move(data), bytes_for(shape, quant_params)), quant_params, shape, strides};
}

Stored Buffers::add_floats(const std::vector<float>& values) {
  return add_constant({static_cast<int64_t>(values.size())}, {}, {1},
                      copy_of(values.data(), values.size() * sizeof(float)));
}

Stored Buffers::add_integers(const std::vector<int32_t>& values) {
  return add_constant({static_cast<int64_t>(values.size())}, {ElementType::s32, 1, 0}, {1},
                      copy_of(values.data(), values.size() * sizeof(int32_t)));
}

Place Buffers::add_bytes(std::shared_ptr<void> bytes, int64_t count) {
  return {add({BufferKind::kConstant, count, -1, std::move(bytes)}), 0};
}

bool Buffers::place_inside(const Stored& made, const Stored& part) {
  if (made.place.buffer < 0 || made.place.buffer == part.place.buffer) return false;
  Buffer& buffer = buffer_of(made);
  if (!fills(made, buffer) || made.quant_params != part.quant_params ||
      !is_dense(made.shape, made.strides) || !same_strides(made.shape, made.strides, part.strides))
    return false;
  buffer.inside = part.place;
  return true;
}

bool Buffers::place_in_output(const Stored& made, int position) {
  Buffer& buffer = buffer_of(made);
  if (!fills(made, buffer)) return false;
  buffer.kind = BufferKind::kOutput;
  buffer.external = position;
  return true;
}

Place Buffers::resolve(Place place) const {
  while (place.buffer >= 0 && buffers_[static_cast<size_t>(place.buffer)].inside.buffer >= 0) {
    const Place& inside = buffers_[static_cast<size_t>(place.buffer)].inside;
    place = {inside.buffer, inside.offset + place.offset};
  }
  return place;
}

}  // namespace octet::onednn
