// From sums of products of bytes to bytes: what the own kernels for convolutions and linear layers
// do last.
#pragma once

#include <cstdint>
#include <vector>

namespace octet::onednn {

// What turns sums of products into bytes: low <= round(sum * scale + bias) <= high, all in steps of
// the output as u8, its zero point in `bias`.
struct ByteScales {
  std::vector<float> scale;  // one per channel
  std::vector<float> bias;   // one per channel
  uint8_t padding = 0;       // the byte that stands where the input is padded: its zero point
  uint8_t low = 0, high = 255;
  bool is_signed = false;  // the output is s8: 128 is taken off in the end
  // what a byte of a tensor that is added counts; its zero point is in `bias`
  float residual = 0;
};

}  // namespace octet::onednn
