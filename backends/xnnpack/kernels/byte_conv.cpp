// Copies the windows of a few pixels of y into rows, which the loops of row_kernels.h multiply
// (im2col: Chellapilla et al., "High Performance Convolutional Neural Networks for Document
// Processing", 2006). A 3x3 window on 8 channels becomes a row of 72 bytes. Only as many rows exist
// at a time as a tile multiplies, so they stay in the L1 cache.
#include "backends/xnnpack/kernels/byte_conv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/kernels/isa.h"
#include "backends/xnnpack/form.h"
#include "backends/xnnpack/kernels/byte_rows.h"
#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_kernels.h"
#include "lowering/program/filter_order.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kCacheLine = 64;

// The weights of one group as [out, taps, inner], padded with zeros to `inner`. weights:
// channels-last.
std::vector<int8_t> rows_of_weights(const ByteConvTerms& terms, const Tensor& weights,
                                    int64_t group, int64_t out, int64_t inner) {
  const int64_t channels = terms.channels / terms.groups, taps = out * terms.taps();
  const int8_t* const from = weights.data<int8_t>() + group * taps * channels;
  std::vector<int8_t> rows(static_cast<size_t>(taps * inner));
  for (int64_t t = 0; t < taps; ++t)
    std::copy_n(from + t * channels, channels, rows.data() + t * inner);
  return rows;
}

// Converts signed bytes to unsigned ones or back.
void flip_bytes(const uint8_t* from, int64_t count, uint8_t* to, pthreadpool_t pool) {
  constexpr int64_t kPart = 1 << 16;
  for_parts(pool, count, kPart, [&](int64_t first, int64_t last) {
    run_vectorized([=]() __attribute__((always_inline)) {
      const uint8_t* __restrict x = from + first;
      uint8_t* __restrict y = to + first;  // a local copy: stores of bytes might alias the pointer
      for (int64_t i = 0, count = last - first; i < count; ++i) y[i] = x[i] ^ 128;
    });
  });
}

// The weights of a group; scale and bias are padded to whole blocks.
struct Group {
  PackedColumns columns;
  std::vector<float> scale, bias;
};

struct WindowConv : ByteConvMethod {
  ByteConvTerms terms;
  std::vector<Group> groups;
  int64_t out;     // per group
  int64_t inner;   // bytes of a tap in a row
  int64_t stride;  // between rows
  int64_t tile;    // pixels of y processed together
  int64_t column_parts = 1;
  int64_t parts;  // each has scratch memory: rows, their parameters, sums as floats

  WindowConv(const ByteConvTerms& given, pthreadpool_t pool);
  size_t scratch_bytes() const override;
  void run(PixelBytes x, std::byte* to, std::byte* scratch, pthreadpool_t pool) const override;

  int64_t parameters() const { return round_up(tile * stride, kCacheLine); }
  int64_t results() const {
    return parameters() + round_up(tile * int64_t{sizeof(RowParameters)}, kCacheLine);
  }
  int64_t part_bytes() const {
    const int64_t reals = terms.scales.y_zero ? tile * terms.out * int64_t{sizeof(float)} : 0;
    return results() + round_up(reals, kCacheLine);
  }
  int64_t tiles() const { return (terms.pixels() + tile - 1) / tile; }

  // Whether the pixels of x already form the rows.
  bool is_pointwise() const {
    const Window& w = terms.window;
    return terms.taps() == 1 && terms.depth_window.stride == 1 &&
           terms.depth_window.pad_front == 0 && w.stride_height == 1 && w.stride_width == 1 &&
           !w.has_padding() && terms.groups == 1 && inner == stride;
  }

  int64_t x_bytes() const { return terms.images * terms.x_pixels() * terms.pitch(); }
  int64_t y_bytes() const {
    return terms.pixels() * terms.out * (terms.scales.y_zero ? 1 : int64_t{sizeof(float)});
  }

  void pack_rows(const uint8_t* x, int64_t group, int64_t first, int64_t count,
                 const RowParameters* parameters, uint8_t* to) const;
  void fill_parameters(const PixelBytes& x, int64_t first, int64_t count, RowParameters* to) const;
  void run_item(const PixelBytes& x, std::byte* y, int64_t item, std::byte* scratch,
                int64_t& packed_tile) const;
};

WindowConv::WindowConv(const ByteConvTerms& given, pthreadpool_t pool)
    : terms(given), out(given.out / given.groups) {
  constexpr int64_t kRowBytes = 1 << 17, kMostRows = 96;  // per tile, to stay in the L2 cache
  const int64_t threads = static_cast<int64_t>(pthreadpool_get_threads_count(pool));
  parts = threads == 1 ? 1 : 4 * threads;
  inner = terms.groups == 1 ? terms.pitch() : terms.channels / terms.groups;
  const int64_t depth = terms.taps() * inner;
  stride = round_up(depth, kGroup);
  tile = std::clamp(kRowBytes / stride / kTileRows * kTileRows, kTileRows, kMostRows);
  tile = std::min(tile, round_up(terms.pixels(), kTileRows));
  const Tensor weights = as_channels_last(terms.weights);
  const std::vector<float>&scale = terms.scales.scale, &bias = terms.scales.bias;
  for (int64_t g = 0; g < terms.groups; ++g) {
    Group group = {
        pack_columns(rows_of_weights(terms, weights, g, out, inner).data(), out, depth, stride),
        {scale.begin() + g * out, scale.begin() + (g + 1) * out},
        {bias.begin() + g * out, bias.begin() + (g + 1) * out}};
    group.scale.resize(group.columns.sums.size());
    group.bias.resize(group.columns.sums.size());
    groups.push_back(std::move(group));
  }
  const int64_t most_columns =
      round_up(out, kTileBlocks * kBlockColumns) / kTileBlocks / kBlockColumns;
  if (terms.groups == 1 && tiles() < parts) column_parts = std::min(most_columns, parts / tiles());
  terms.weights = {};
}

size_t WindowConv::scratch_bytes() const {
  return static_cast<size_t>(parts * part_bytes() + round_up(x_bytes(), kCacheLine) +
                             (terms.is_planar ? y_bytes() : 0));
}

// Copies a number of elements between kBytes and 2 * kBytes.
template <size_t kBytes>
[[gnu::always_inline]] inline void copy_both_ends(const uint8_t* from, int64_t count, uint8_t* to) {
  const int64_t last = count - int64_t{kBytes};
  std::array<uint8_t, kBytes> front, back;
  std::memcpy(front.data(), from, kBytes);
  std::memcpy(back.data(), from + last, kBytes);
  std::memcpy(to, front.data(), kBytes);
  std::memcpy(to + last, back.data(), kBytes);
}

// memcpy without its overhead for the small sizes of most calls.
[[gnu::always_inline]] inline void copy_few(const uint8_t* from, int64_t count, uint8_t* to) {
  if (count > 128) {
    std::memcpy(to, from, static_cast<size_t>(count));
  } else if (count >= 16) {
    for (int64_t at = 0; at + 16 < count; at += 16) std::memcpy(to + at, from + at, 16);
    std::memcpy(to + count - 16, from + count - 16, 16);
  } else if (count >= 8) {
    copy_both_ends<8>(from, count, to);
  } else if (count >= 4) {
    copy_both_ends<4>(from, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

// A pixel of y by its position in memory order, with a step to the next one.
struct PixelOfResult {
  int64_t image, z, y, x;

  PixelOfResult(const ByteConvTerms& terms, int64_t pixel)
      : image(pixel / terms.y_pixels()),
        z(pixel / terms.out_width / terms.out_height % terms.out_depth),
        y(pixel / terms.out_width % terms.out_height),
        x(pixel % terms.out_width) {}

  void move(const ByteConvTerms& terms) {
    if (++x < terms.out_width) return;
    x = 0;
    if (++y < terms.out_height) return;
    y = 0;
    if (++z < terms.out_depth) return;
    z = 0;
    ++image;
  }
};

// Packs the windows of neighboring pixels of y.
void WindowConv::pack_rows(const uint8_t* x, int64_t group, int64_t first, int64_t count,
                           const RowParameters* parameters, uint8_t* to) const {
  const Window& w = terms.window;
  const DepthWindow& d = terms.depth_window;
  const int64_t pitch = terms.pitch(), row_bytes = w.kernel_width * inner,
                padding = stride - terms.taps() * inner;
  const bool is_run = w.dilation_width == 1 && inner == pitch;
  PixelOfResult at(terms, first);
  for (int64_t i = 0; i < count; ++i, at.move(terms)) {
    const int64_t left = at.x * w.stride_width - w.pad_left,
                  top = at.y * w.stride_height - w.pad_top, front = at.z * d.stride - d.pad_front;
    const uint8_t* const from =
        x + at.image * terms.x_pixels() * pitch + (terms.groups == 1 ? 0 : group * inner);
    const int zero = parameters[i].zero_point;
    const auto fill = [&](int64_t bytes) {
      if (bytes > 0) std::memset(to, zero, static_cast<size_t>(bytes));
      to += bytes;
    };
    const auto copy = [&](int64_t row, int64_t ix, int64_t bytes) {
      copy_few(from + (row * terms.width + ix) * pitch, bytes, to);
      to += bytes;
    };
    const int64_t end = left + w.kernel_width, begin = std::clamp<int64_t>(0, left, end),
                  inside_end = std::clamp<int64_t>(terms.width, begin, end);
    for (int64_t kz = 0, iz = front; kz < d.kernel; ++kz, iz += d.dilation)
      for (int64_t ky = 0, iy = top; ky < w.kernel_height; ++ky, iy += w.dilation_height) {
        const int64_t row = iz * terms.height + iy;
        if (iz < 0 || iz >= terms.depth || iy < 0 || iy >= terms.height) {
          fill(row_bytes);
        } else if (is_run) {
          fill((begin - left) * inner);
          copy(row, begin, (inside_end - begin) * inner);
          fill((end - inside_end) * inner);
        } else {
          for (int64_t kx = 0; kx < w.kernel_width; ++kx) {
            const int64_t ix = left + kx * w.dilation_width;
            ix >= 0 && ix < terms.width ? copy(row, ix, inner) : fill(inner);
          }
        }
      }
    if (padding > 0) std::memset(to, 0, static_cast<size_t>(padding));
    to += padding;
  }
}

void WindowConv::fill_parameters(const PixelBytes& x, int64_t first, int64_t count,
                                 RowParameters* to) const {
  for (int64_t i = 0; i < count;) {
    const int64_t image = (first + i) / terms.y_pixels(),
                  some = std::min(count - i, (image + 1) * terms.y_pixels() - first - i);
    RowParameters given = {0, 1.0f};
    if (x.parameters != nullptr) given = x.parameters[image * terms.x_pixels()];
    given.zero_point += x.zero;
    std::fill_n(to + i, some, given);
    i += some;
  }
}

// Computes a tile of pixels for a part of the columns.
void WindowConv::run_item(const PixelBytes& x, std::byte* y, int64_t item, std::byte* scratch,
                          int64_t& packed_tile) const {
  const int64_t first = item / column_parts * tile, count = std::min(tile, terms.pixels() - first);
  const bool is_new = packed_tile != first;
  packed_tile = first;
  uint8_t* const rows = reinterpret_cast<uint8_t*>(scratch);
  RowParameters* const parameters = reinterpret_cast<RowParameters*>(scratch + this->parameters());
  if (is_new) fill_parameters(x, first, count, parameters);
  float* const reals = terms.scales.y_zero ? reinterpret_cast<float*>(scratch + results())
                                           : reinterpret_cast<float*>(y) + first * terms.out;
  for (int64_t g = 0; g < terms.groups; ++g) {
    if (!is_pointwise() && (is_new || terms.groups > 1))
      pack_rows(x.bytes, g, first, count, parameters, rows);
    const Group& group = groups[static_cast<size_t>(g)];
    const RowProductView view = {is_pointwise() ? x.bytes + first * stride : rows,
                                 stride,
                                 parameters,
                                 group.columns.weights.get(),
                                 stride,
                                 group.columns.sums.data(),
                                 group.scale.data(),
                                 group.bias.data(),
                                 reals + g * out,
                                 out,
                                 terms.scales.low,
                                 terms.scales.high,
                                 nullptr,
                                 terms.out};
    const int64_t blocks = std::ssize(group.columns.sums) / kBlockColumns,
                  step = round_up((blocks + column_parts - 1) / column_parts, kTileBlocks),
                  block = std::min(item % column_parts * step, blocks);
    multiply_rows(view, 0, count, block, std::min(step, blocks - block), terms.scales.y_zero,
                  reinterpret_cast<int8_t*>(y) + first * terms.out + g * out);
  }
}

void WindowConv::run(PixelBytes x, std::byte* to, std::byte* scratch, pthreadpool_t pool) const {
  std::byte* const copy = scratch + parts * part_bytes();
  std::byte* const y = terms.is_planar ? copy + round_up(x_bytes(), kCacheLine) : to;
  const bool flips = x.is_signed != (best_row_kernel().lowest < 0);
  if (terms.is_planar)
    xnnpack::run(Shuffle{terms.images, terms.channels, terms.x_pixels(), 1, flips},
                 reinterpret_cast<const std::byte*>(x.bytes), copy);
  else if (flips)
    flip_bytes(x.bytes, x_bytes(), reinterpret_cast<uint8_t*>(copy), pool);
  if (terms.is_planar || flips) x.bytes = reinterpret_cast<const uint8_t*>(copy);
  if (flips) x.zero += x.is_signed ? 128 : -128;
  const int64_t items = tiles() * column_parts;
  for_parts(pool, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      int64_t packed_tile = -1;
      for (int64_t item = part * items / parts; item < (part + 1) * items / parts; ++item)
        run_item(x, y, item, scratch + part * part_bytes(), packed_tile);
    }
  });
  if (terms.is_planar)
    xnnpack::run(Shuffle{terms.images, terms.y_pixels(), terms.out,
                         terms.scales.y_zero ? size_t{1} : sizeof(float)},
                 y, to);
}

}  // namespace

ByteConv::ByteConv(const ByteConvTerms& terms, pthreadpool_t pool)
    : pixels_{terms.images * terms.x_pixels(), terms.channels},
      x_zero_(terms.x_zero),
      method_(find_depthwise(terms, pool)) {
  if (method_ == nullptr) method_ = std::make_shared<const WindowConv>(terms, pool);
}

size_t ByteConv::scratch_bytes() const { return method_->scratch_bytes(); }

void ByteConv::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                   pthreadpool_t pool) const {
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(from[0]);
  const PixelBytes x = x_zero_ ? PixelBytes{bytes, true, nullptr, *x_zero_}
                               : PixelBytes{bytes + pixels_.values(), lowest_byte() < 0,
                                            reinterpret_cast<const RowParameters*>(from[0]), 0};
  method_->run(x, to, scratch, pool);
}

}  // namespace octet::xnnpack
