#include "backends/xnnpack/form.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backends/kernels/isa.h"
#include "backends/xnnpack/functions.h"
#include "core/base/error.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kTile = 32;
constexpr int64_t kColors = 3;
constexpr uint8_t kSignBit = 0x80;  // the bit in which u8 and s8 of the same value differ

template <typename T>
void transpose(const T* from, T* to, int64_t rows, int64_t columns) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

// Swaps the upper-right and lower-left quarter of each square of 2 * rows bytes, in a matrix with
// one row per word.
void swap_quarters(std::array<uint64_t, 8>& words, size_t rows, uint64_t low_half) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (i & rows) continue;
    const uint64_t crossed = ((words[i] >> (8 * rows)) ^ words[i + rows]) & low_half;
    words[i + rows] ^= crossed;
    words[i] ^= crossed << (8 * rows);
  }
}

// Transposes an 8x8 block of bytes. The strides are in bytes.
void transpose_block(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride,
                     uint64_t mask) {
  std::array<uint64_t, 8> words;
  for (size_t i = 0; i < words.size(); ++i) {
    std::memcpy(&words[i], from + static_cast<int64_t>(i) * from_stride, sizeof(uint64_t));
    words[i] ^= mask;
  }
  swap_quarters(words, 4, 0x00000000FFFFFFFFu);
  swap_quarters(words, 2, 0x0000FFFF0000FFFFu);
  swap_quarters(words, 1, 0x00FF00FF00FF00FFu);
  for (size_t i = 0; i < words.size(); ++i)
    std::memcpy(to + static_cast<int64_t>(i) * to_stride, &words[i], sizeof(uint64_t));
}

// Transposes bytes in blocks of 8x8, and the remainder one by one.
void transpose_bytes(const uint8_t* from, uint8_t* to, int64_t rows, int64_t columns,
                     uint8_t mask) {
  const bool has_blocks = std::endian::native == std::endian::little;
  const int64_t block_rows = has_blocks ? rows / 8 * 8 : 0,
                block_columns = has_blocks ? columns / 8 * 8 : 0;
  const uint64_t word_mask = 0x0101010101010101u * mask;
  for (int64_t r = 0; r < block_rows; r += 8) {
    for (int64_t c = 0; c < block_columns; c += 8)
      transpose_block(from + r * columns + c, columns, to + c * rows + r, rows, word_mask);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < block_rows ? block_columns : 0; c < columns; ++c)
      to[c * rows + r] = from[r * columns + c] ^ mask;
  }
}

// Interleaves the planes of an image. The number of channels is a compile-time constant, so that
// the loop is vectorized.
template <typename T>
void interleave_colors(const T* __restrict from, T* __restrict to, int64_t pixels, T mask) {
  run_vectorized([=]() __attribute__((always_inline)) {
    const T* __restrict x = from;
    T* __restrict y = to;  // a local copy: stores of bytes might alias the pointer
    const T flipped = mask;
    for (int64_t i = 0, count = pixels; i < count; ++i)
      for (int64_t c = 0; c < kColors; ++c)
        y[i * kColors + c] = static_cast<T>(x[c * count + i] ^ flipped);
  });
}

template <typename T>
void transpose_batches(const Shuffle& shuffle, const std::byte* from_bytes, std::byte* to_bytes) {
  const int64_t plane = shuffle.rows * shuffle.columns;
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  for (int64_t b = 0; b < shuffle.batch; ++b, from += plane, to += plane) {
    if (shuffle.rows == kColors) {
      interleave_colors<T>(from, to, shuffle.columns, shuffle.flip ? kSignBit : T{0});
    } else if constexpr (sizeof(T) == 1) {
      transpose_bytes(from, to, shuffle.rows, shuffle.columns, shuffle.flip ? kSignBit : 0);
    } else {
      transpose(from, to, shuffle.rows, shuffle.columns);
    }
  }
}

}  // namespace

bool has_channels_last(const std::vector<int64_t>& shape) {
  return shape.size() == 3 || shape.size() == 4;
}

std::vector<size_t> dims_of(const std::vector<int64_t>& shape, Form form) {
  std::vector<size_t> dims(shape.begin(), shape.end());
  switch (form) {
    case Form::kPlain: return dims.empty() ? std::vector<size_t>{1} : dims;
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
  if (shuffle.rows == 1 || shuffle.columns == 1) {
    const size_t size =
        static_cast<size_t>(shuffle.batch * shuffle.rows * shuffle.columns) * shuffle.element_size;
    if (!shuffle.flip) {
      std::memcpy(to, from, size);
      return;
    }
    for (size_t i = 0; i < size; ++i) to[i] = from[i] ^ static_cast<std::byte>(kSignBit);
    return;
  }
  switch (shuffle.element_size) {
    case 1: return transpose_batches<uint8_t>(shuffle, from, to);
    case 2: return transpose_batches<uint16_t>(shuffle, from, to);
    case 4: return transpose_batches<uint32_t>(shuffle, from, to);
    case 8: return transpose_batches<uint64_t>(shuffle, from, to);
    default: OCTET_ASSERT(false, "element size");
  }
}

std::vector<int64_t> padded_shape(const std::vector<int64_t>& shape, size_t rank) {
  std::vector<int64_t> padded = shape;
  if (padded.size() < rank) padded.insert(padded.begin(), rank - padded.size(), 1);
  return padded;
}

std::vector<std::byte> constant_bytes(const ProgramTensor& tensor, Form form, size_t rank) {
  const Tensor data = constant_data(tensor).contiguous();
  ProgramTensor padded;
  padded.dtype = tensor.dtype;
  padded.shape = padded_shape(tensor.shape, rank);
  std::vector<std::byte> bytes(data.nbytes() + kExtraBytes);
  run(shuffle_between(padded, Order::kRowMajor, order_of(padded.shape, form),
                      tensor.dtype == DType::kUInt8),
      data.raw(), bytes.data());
  return bytes;
}

}  // namespace octet::xnnpack
