// See the header. The windows of some pixels of y become rows, which the loops of row_kernels.h
// multiply.
#include "backends/xnnpack/kernels/byte_conv.h"

#include <algorithm>
#include <cstring>

#include "backends/common/byte_rounding.h"
#include "backends/common/vectorised.h"
#include "backends/xnnpack/form.h"
#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_kernels.h"
#include "lowering/program/filter_order.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kCacheLine = 64;

// Of one group: [out, taps, inner], with zeros where inner is more than the weights have, which are
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

// Signed bytes to unsigned ones and back.
void flip_bytes(const uint8_t* from, int64_t count, uint8_t* to, pthreadpool_t pool) {
  constexpr int64_t kPart = 1 << 16;
  for_parts(pool, count, kPart, [&](int64_t first, int64_t last) {
    run_vectorised([=]() __attribute__((always_inline)) {
      for (int64_t i = first; i < last; ++i) to[i] = from[i] ^ 128;
    });
  });
}

// The weights of a group; scale and bias of whole blocks.
struct Group {
  PackedColumns columns;
  std::vector<float> scale, bias;
};

}  // namespace

PixelBytes pixel_bytes(const ByteConvTerms& terms, const std::byte* from) {
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(from);
  if (terms.x_zero) return {bytes, true, nullptr, *terms.x_zero};
  const RowLayout layout = {terms.images * terms.x_pixels(), terms.channels};
  return {bytes + layout.values(), lowest_byte() < 0, reinterpret_cast<const RowParameters*>(from),
          0};
}

struct ByteConv::Packed {
  ByteConvTerms terms;
  std::vector<Group> groups;
  int64_t out;     // of a group
  int64_t inner;   // bytes of a tap in a row
  int64_t stride;  // of rows
  int64_t tile;    // pixels of y that are done together
  int64_t column_parts;
  int64_t parts;  // each has its scratch memory: rows, their parameters, sums as floats

  int64_t parameters() const { return round_up(tile * stride, kCacheLine); }
  int64_t results() const {
    return parameters() + round_up(tile * int64_t{sizeof(RowParameters)}, kCacheLine);
  }
  int64_t part_bytes() const {
    const int64_t reals = terms.y_zero ? tile * terms.out * int64_t{sizeof(float)} : 0;
    return results() + round_up(reals, kCacheLine);
  }
  int64_t tiles() const { return (terms.pixels() + tile - 1) / tile; }

  // Whether the pixels of x are the rows.
  bool is_pointwise() const {
    const Window& w = terms.window;
    return terms.taps() == 1 && terms.depth_window.stride == 1 &&
           terms.depth_window.pad_front == 0 && w.stride_height == 1 && w.stride_width == 1 &&
           !w.has_padding() && terms.groups == 1 && inner == stride;
  }

  int64_t x_bytes() const { return terms.images * terms.x_pixels() * terms.pitch(); }
  int64_t y_bytes() const {
    return terms.pixels() * terms.out * (terms.y_zero ? 1 : int64_t{sizeof(float)});
  }

  void pack_rows(const uint8_t* x, int64_t group, int64_t first, int64_t count,
                 const RowParameters* parameters, uint8_t* to) const;
  void fill_parameters(const PixelBytes& x, int64_t first, int64_t count, RowParameters* to) const;
  void run_item(const PixelBytes& x, std::byte* y, int64_t item, std::byte* scratch,
                int64_t& packed_tile) const;
};

ByteConv::ByteConv(const ByteConvTerms& terms, pthreadpool_t pool) {
  constexpr int64_t kRowBytes = 1 << 17, kMostRows = 96;  // of a tile: in the second cache
  const int64_t threads = static_cast<int64_t>(pthreadpool_get_threads_count(pool));
  Packed p = {terms, {}, terms.out / terms.groups, 0, 0, 0, 1, threads == 1 ? 1 : 4 * threads};
  p.inner = terms.groups == 1 ? terms.pitch() : terms.channels / terms.groups;
  const int64_t depth = terms.taps() * p.inner;
  p.stride = round_up(depth, kGroup);
  p.tile = std::clamp(kRowBytes / p.stride / kTileRows * kTileRows, kTileRows, kMostRows);
  p.tile = std::min(p.tile, round_up(terms.pixels(), kTileRows));
  const Tensor weights = as_channels_last(terms.weights);
  for (int64_t g = 0; g < terms.groups; ++g) {
    Group group = {
        pack_columns(rows_of_weights(terms, weights, g, p.out, p.inner).data(), p.out, depth,
                     p.stride),
        {terms.scale.begin() + g * p.out, terms.scale.begin() + (g + 1) * p.out},
        {terms.bias.begin() + g * p.out,  terms.bias.begin() + (g + 1) * p.out }
    };
    group.scale.resize(group.columns.sums.size());
    group.bias.resize(group.columns.sums.size());
    p.groups.push_back(std::move(group));
  }
  const int64_t most_columns =
      round_up(p.out, kTileBlocks * kBlockColumns) / kTileBlocks / kBlockColumns;
  if (terms.groups == 1 && p.tiles() < p.parts)
    p.column_parts = std::min(most_columns, p.parts / p.tiles());
  p.terms.weights = {};
  packed_ = std::make_shared<const Packed>(std::move(p));
}

size_t ByteConv::scratch_bytes() const {
  const Packed& p = *packed_;
  return static_cast<size_t>(p.parts * p.part_bytes() + round_up(p.x_bytes(), kCacheLine) +
                             (p.terms.is_planar ? p.y_bytes() : 0));
}

// The windows of neighbouring pixels of y.
void ByteConv::Packed::pack_rows(const uint8_t* x, int64_t group, int64_t first, int64_t count,
                                 const RowParameters* parameters, uint8_t* to) const {
  const Window& w = terms.window;
  const DepthWindow& d = terms.depth_window;
  const int64_t pitch = terms.pitch(), row_bytes = w.kernel_width * inner,
                plane = terms.out_height * terms.out_width, padding = stride - terms.taps() * inner;
  const bool is_run = w.dilation_width == 1 && inner == pitch;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t image = (first + i) / terms.y_pixels(), pixel = (first + i) % terms.y_pixels(),
                  left = pixel % terms.out_width * w.stride_width - w.pad_left,
                  top = pixel % plane / terms.out_width * w.stride_height - w.pad_top,
                  front = pixel / plane * d.stride - d.pad_front;
    const uint8_t* const from =
        x + image * terms.x_pixels() * pitch + (terms.groups == 1 ? 0 : group * inner);
    const int zero = parameters[i].zero_point;
    const auto fill = [&](int64_t bytes) {
      if (bytes > 0) std::memset(to, zero, static_cast<size_t>(bytes));
      to += bytes;
    };
    const auto copy = [&](int64_t row, int64_t ix, int64_t bytes) {
      std::memcpy(to, from + (row * terms.width + ix) * pitch, static_cast<size_t>(bytes));
      to += bytes;
    };
    for (int64_t k = 0; k < d.kernel * w.kernel_height; ++k) {
      const int64_t iz = front + k / w.kernel_height * d.dilation,
                    iy = top + k % w.kernel_height * w.dilation_height,
                    row = iz * terms.height + iy;
      if (iz < 0 || iz >= terms.depth || iy < 0 || iy >= terms.height) {
        fill(row_bytes);
      } else if (is_run) {
        const int64_t end = left + w.kernel_width, begin = std::clamp<int64_t>(0, left, end),
                      behind = std::clamp<int64_t>(terms.width, begin, end);
        fill((begin - left) * inner);
        copy(row, begin, (behind - begin) * inner);
        fill((end - behind) * inner);
      } else {
        for (int64_t kx = 0; kx < w.kernel_width; ++kx) {
          const int64_t ix = left + kx * w.dilation_width;
          ix >= 0 && ix < terms.width ? copy(row, ix, inner) : fill(inner);
        }
      }
    }
    std::memset(to, 0, static_cast<size_t>(padding));
    to += padding;
  }
}

void ByteConv::Packed::fill_parameters(const PixelBytes& x, int64_t first, int64_t count,
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

// A tile of pixels, and a part of the columns.
void ByteConv::Packed::run_item(const PixelBytes& x, std::byte* y, int64_t item, std::byte* scratch,
                                int64_t& packed_tile) const {
  const int64_t first = item / column_parts * tile, count = std::min(tile, terms.pixels() - first);
  const bool is_new = packed_tile != first;
  packed_tile = first;
  uint8_t* const rows = reinterpret_cast<uint8_t*>(scratch);
  RowParameters* const parameters = reinterpret_cast<RowParameters*>(scratch + this->parameters());
  if (is_new) fill_parameters(x, first, count, parameters);
  float* const reals = terms.y_zero ? reinterpret_cast<float*>(scratch + results())
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
                                 terms.low,
                                 terms.high,
                                 nullptr,
                                 terms.out};
    const int64_t blocks = std::ssize(group.columns.sums) / kBlockColumns,
                  step = round_up((blocks + column_parts - 1) / column_parts, kTileBlocks),
                  block = std::min(item % column_parts * step, blocks),
                  block_count = std::min(step, blocks - block);
    best_row_kernel().run(view, 0, count, block, block_count);
    if (!terms.y_zero) continue;
    const int64_t column = g * out + block * kBlockColumns,
                  columns = std::min(block_count * kBlockColumns, out - block * kBlockColumns);
    int8_t* const bytes = reinterpret_cast<int8_t*>(y) + first * terms.out + column;
    const ByteOutput output = byte_output(1, *terms.y_zero);
    const bool is_one_run = columns == terms.out;
    const int64_t runs = is_one_run ? 1 : count, run = is_one_run ? count * columns : columns;
    run_vectorised([=, pitch = terms.out]() __attribute__((always_inline)) {
      for (int64_t i = 0; i < runs; ++i)
        round_to_bytes(reals + i * pitch + column, bytes + i * pitch, run, output);
    });
  }
}

void ByteConv::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                   pthreadpool_t pool) const {
  const Packed& p = *packed_;
  PixelBytes x = pixel_bytes(p.terms, from[0]);
  std::byte* const copy = scratch + p.parts * p.part_bytes();
  std::byte* const y = p.terms.is_planar ? copy + round_up(p.x_bytes(), kCacheLine) : to;
  const bool flips = x.is_signed != (best_row_kernel().lowest < 0);
  if (p.terms.is_planar)
    xnnpack::run(Shuffle{p.terms.images, p.terms.channels, p.terms.x_pixels(), 1, flips}, from[0],
                 copy);
  else if (flips)
    flip_bytes(x.bytes, p.x_bytes(), reinterpret_cast<uint8_t*>(copy), pool);
  if (p.terms.is_planar || flips) x.bytes = reinterpret_cast<const uint8_t*>(copy);
  if (flips) x.zero += x.is_signed ? 128 : -128;
  const int64_t items = p.tiles() * p.column_parts;
  for_parts(pool, p.parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      int64_t packed_tile = -1;
      for (int64_t item = part * items / p.parts; item < (part + 1) * items / p.parts; ++item)
        p.run_item(x, y, item, scratch + part * p.part_bytes(), packed_tile);
    }
  });
  if (p.terms.is_planar)
    xnnpack::run(Shuffle{p.terms.images, p.terms.y_pixels(), p.terms.out,
                         p.terms.y_zero ? size_t{1} : sizeof(float)},
                 y, to);
}

}  // namespace octet::xnnpack
