#include "backends/xnnpack/xnnpack_form.h"

#include <xnnpack.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kTile = 32;

template <typename T>
void transpose(const T* from, T* to, int64_t rows, int64_t columns, T mask) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) to[c * rows + r] = static_cast<T>(from[r * columns + c] ^ mask);
      }
    }
  }
}

template <typename T>
void transpose_batches(const Shuffle& shuffle, const std::byte* from, std::byte* to, T mask) {
  const int64_t plane = shuffle.rows * shuffle.columns;
  for (int64_t b = 0; b < shuffle.batch; ++b) {
    transpose(reinterpret_cast<const T*>(from) + b * plane, reinterpret_cast<T*>(to) + b * plane, shuffle.rows, shuffle.columns, mask);
  }
}

}  // namespace

bool has_channels_last(const std::vector<int64_t>& shape) { return shape.size() == 3 || shape.size() == 4; }

std::vector<size_t> dims_of(const std::vector<int64_t>& shape, Form form) {
  std::vector<size_t> dims(shape.begin(), shape.end());
  switch (form) {
    case Form::kPlain:
      return dims.empty() ? std::vector<size_t>{1} : dims;
    case Form::kRows: {
      const size_t last = dims.empty() ? 1 : dims.back();
      return {last == 0 ? 0 : static_cast<size_t>(product(shape)) / last, 1, 1, last};
    }
    case Form::kChannelsLast:
      OCTET_ASSERT(has_channels_last(shape), "channels-last needs rank 3 or 4");
      if (dims.size() == 3) return {dims[0], 1, dims[2], dims[1]};
      return {dims[0], dims[2], dims[3], dims[1]};
  }
  OCTET_ASSERT(false, "unknown form");
}

Order order_of(const std::vector<int64_t>& shape, Form form) {
  if (form != Form::kChannelsLast) return Order::kRowMajor;
  const int64_t pixels = product(std::span<const int64_t>(shape).subspan(2));
  return shape[1] == 1 || pixels == 1 ? Order::kRowMajor : Order::kChannelsLast;
}

Shuffle shuffle_between(const ProgramTensor& tensor, Order from, Order to, bool flip) {
  Shuffle shuffle{.element_size = size_of(tensor.dtype), .flip = flip};
  if (from == to) {
    shuffle.columns = tensor.numel();
    return shuffle;
  }
  const int64_t pixels = product(std::span<const int64_t>(tensor.shape).subspan(2));
  shuffle.batch = tensor.shape[0];
  shuffle.rows = from == Order::kRowMajor ? tensor.shape[1] : pixels;
  shuffle.columns = from == Order::kRowMajor ? pixels : tensor.shape[1];
  return shuffle;
}

void run(const Shuffle& shuffle, const std::byte* from, std::byte* to) {
  const uint8_t mask = shuffle.flip ? 0x80 : 0;
  if (shuffle.rows == 1 || shuffle.columns == 1) {
    const size_t size = static_cast<size_t>(shuffle.batch * shuffle.rows * shuffle.columns) * shuffle.element_size;
    if (!shuffle.flip) {
      std::memcpy(to, from, size);
      return;
    }
    for (size_t i = 0; i < size; ++i) to[i] = from[i] ^ static_cast<std::byte>(mask);
    return;
  }
  switch (shuffle.element_size) {
    case 1:
      return transpose_batches<uint8_t>(shuffle, from, to, mask);
    case 2:
      return transpose_batches<uint16_t>(shuffle, from, to, 0);
    case 4:
      return transpose_batches<uint32_t>(shuffle, from, to, 0);
    case 8:
      return transpose_batches<uint64_t>(shuffle, from, to, 0);
    default:
      OCTET_ASSERT(false, "element size");
  }
}

std::vector<int64_t> padded_shape(const std::vector<int64_t>& shape, size_t rank) {
  std::vector<int64_t> padded = shape;
  if (padded.size() < rank) padded.insert(padded.begin(), rank - padded.size(), 1);
  return padded;
}

std::vector<std::byte> constant_bytes(const ProgramTensor& tensor, Form form, size_t rank) {
  const Tensor data = tensor.data.contiguous();
  ProgramTensor padded;
  padded.dtype = tensor.dtype;
  padded.shape = padded_shape(tensor.shape, rank);
  std::vector<std::byte> bytes(data.nbytes() + XNN_EXTRA_BYTES);
  run(shuffle_between(padded, Order::kRowMajor, order_of(padded.shape, form), tensor.dtype == DType::kUInt8), data.raw(), bytes.data());
  return bytes;
}

}  // namespace octet::xnnpack
