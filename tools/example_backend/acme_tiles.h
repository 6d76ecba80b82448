// Cuts ops into tiles that fit into the SRAM.
#pragma once

#include <algorithm>
#include <cstdint>

#include "acme_device.h"

namespace acme {

// Gives addresses in the SRAM, one after another.
class Sram {
 public:
  int64_t take(int64_t bytes) {
    const int64_t address = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return address;
  }
  int64_t used() const { return used_; }
  bool fits() const { return used_ <= kSramBytes; }

 private:
  int64_t used_ = 0;
};

// A convolution, a linear layer (whose rows are images of one pixel) or a pooling.
struct Image {
  int64_t batch, in_channels, height, width, channels;
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_y = 1, stride_x = 1, pad_y = 0, pad_x = 0;
  int64_t out_height = 1, out_width = 1;
  int64_t depth() const { return in_channels * kernel_height * kernel_width; }
};

// The rows of the input that some rows of the result read, without padding.
struct InputRows {
  int64_t first, count;
  int64_t top;  // of the first window in them, see Windows
};
inline InputRows input_rows(const Image& image, int64_t first_row, int64_t rows) {
  const int64_t start = first_row * image.stride_y - image.pad_y;
  const int64_t end = start + (rows - 1) * image.stride_y + image.kernel_height;
  const int64_t first = std::clamp<int64_t>(start, 0, image.height);
  return {first, std::max<int64_t>(std::min(end, image.height) - first, 0), start - first};
}

inline Windows windows_of(const Image& image, const InputRows& in, int64_t rows) {
  return {in.count,
          image.width,
          image.kernel_height,
          image.kernel_width,
          image.stride_y,
          image.stride_x,
          in.top,
          -image.pad_x,
          rows,
          image.out_width};
}

// How much of the result is made at a time.
struct Tile {
  int64_t channels, rows;
};

// Halves the tile of a whole image until bytes_of(tile) fits: rows first where that helps. The
// result may be too large still, if one row of one channel is.
template <typename BytesOf>
Tile find_tile(const Image& image, const BytesOf& bytes_of) {
  Tile tile{std::max<int64_t>(image.channels, 1), std::max<int64_t>(image.out_height, 1)};
  while (bytes_of(tile) > kSramBytes && (tile.channels > 1 || tile.rows > 1)) {
    const Tile fewer_channels{(tile.channels + 1) / 2, tile.rows};
    const Tile fewer_rows{tile.channels, (tile.rows + 1) / 2};
    const bool cuts_rows =
        tile.channels == 1 || (tile.rows > 1 && bytes_of(fewer_rows) < bytes_of(fewer_channels));
    tile = cuts_rows ? fewer_rows : fewer_channels;
  }
  return tile;
}

}  // namespace acme
