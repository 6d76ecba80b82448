// The NPU, simulated: 256 KiB of SRAM, and units that a queue of commands drives. A project for a
// real chip has its driver here. Nothing in this file depends on Octet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace acme {

constexpr int64_t kSramBytes = 256 * 1024;
constexpr int64_t kAlignment = 16;   // of every address in the SRAM
constexpr int64_t kArrayDepth = 32;  // the products that the array adds before they leave it
constexpr int32_t kGreatestSum = (1 << 19) - 1;  // 20 bits with the sign; -2^19 is not used

// x * multiplier / 2^shift, rounded to the nearest integer, halves up.
struct Ratio {
  int32_t multiplier = 0;
  int shift = 0;
};

// The part of an image that is in the SRAM, and the windows on it. Row 0 of the result begins
// `top` rows below the part's first row, column 0 `left` columns to the right; both are negative
// where padding comes first. What lies outside of the part is padding.
struct Windows {
  int64_t height, width;  // of the part
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x;
  int64_t top, left;
  int64_t rows, columns;  // of the result
};

// ---- the DMA unit: moves blocks between a buffer in main memory and the SRAM, where they are
// adjacent

struct Transfer {
  int buffer;  // its index
  int64_t from,
      stride;  // bytes: where the first block is in the buffer, and the distance to the next
  int64_t blocks, bytes;  // how many, and the size of each
  int64_t address;        // in the SRAM
};
struct Load : Transfer {};
struct Store : Transfer {};

// ---- the array: int8 products, summed in 20 bits

// Adds to the 32-bit sums [channels, rows, columns] the products of x [in_channels, height, width]
// and weight [channels, depth], where depth = in_channels * kernel_height * kernel_width. It takes
// `count` of the depth, at most kArrayDepth, from `first` on; the vector unit adds what the array
// gives to the sums.
struct Multiply {
  int64_t x, weight, sums;
  Windows windows;
  int64_t channels, depth;
  int64_t first, count;
};

// ---- the vector unit: 32 bits

// Sets the sums [channels, pixels] to the bias of each channel.
struct SetSums {
  int64_t bias, sums, channels, pixels;
};
// int32 sums to int8.
struct Requantize {
  int64_t sums, y, count;
  Ratio ratio;
  int32_t low, high;
};
// y = a * a_multiplier / 2^shift + b * b_multiplier / 2^shift, rounded once.
struct Add {
  int64_t a, b, y, count;
  int32_t a_multiplier, b_multiplier;
  int shift;
  int32_t low, high;
};
// y = table[x + 128]
struct LookUp {
  int64_t x, table, y, count;
};
// The greatest element of each window, plane by plane.
struct MaxPool {
  int64_t x, y, planes;
  Windows windows;
};
// float32 to int8 and back.
struct Quantize {
  int64_t x, y, count;
  float scale;
  int32_t low, high;
};
struct Dequantize {
  int64_t x, y, count;
  float scale;
};

// x * sigmoid(beta * x), float32: the custom op.
struct Swish {
  int64_t x, y, count;
  float beta;
};

using Command = std::variant<Load, Store, Multiply, SetSums, Requantize, Add, LookUp, MaxPool,
                             Quantize, Dequantize, Swish>;

// A range of main memory that the DMA unit reaches.
struct Buffer {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

class Device {
 public:
  Device() : sram_(kSramBytes) {}
  // Plays the queue. Throws std::runtime_error where the chip would stop with a fault: an address
  // that is not aligned, outside of the SRAM or of a buffer, or a sum of more than 20 bits.
  void run(std::span<const Command> queue, std::span<const Buffer> buffers);

 private:
  template <typename T>
  T* at(int64_t address, int64_t count);
  void move(const Transfer& transfer, bool is_load);
  void play(const Load& command) { move(command, true); }
  void play(const Store& command) { move(command, false); }
  void play(const Multiply& command);
  void play(const SetSums& command);
  void play(const Requantize& command);
  void play(const Add& command);
  void play(const LookUp& command);
  void play(const MaxPool& command);
  void play(const Quantize& command);
  void play(const Dequantize& command);
  void play(const Swish& command);

  std::vector<std::byte> sram_;
  std::span<const Buffer> buffers_;  // of the queue that runs
};

}  // namespace acme
