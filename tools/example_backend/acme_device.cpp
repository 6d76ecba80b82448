// Plays commands in plain loops, and checks what the chip would check.
#include "acme_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace acme {

namespace {

[[noreturn]] void fault(const std::string& what) {
  throw std::runtime_error("the NPU stopped: " + what);
}

// value / 2^shift
int32_t rounded(int64_t value, int shift, int32_t low, int32_t high) {
  const int64_t half = int64_t{1} << (shift - 1);
  return static_cast<int32_t>(std::clamp<int64_t>((value + half) >> shift, low, high));
}

// Where an element of the depth lies: its channel, and its place in the window.
struct Tap {
  int64_t channel, row, column;
};

std::vector<Tap> taps_of(const Multiply& command) {
  const Windows& w = command.windows;
  const int64_t window = w.kernel_height * w.kernel_width;
  std::vector<Tap> taps;
  for (int64_t d = command.first; d < command.first + command.count; ++d)
    taps.push_back({d / window, d % window / w.kernel_width, d % w.kernel_width});
  return taps;
}

}  // namespace

// The elements at an address of the SRAM.
template <typename T>
T* Device::at(int64_t address, int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  if (address % kAlignment != 0) fault("address " + std::to_string(address) + " is not aligned");
  if (address < 0 || count < 0 || bytes > kSramBytes - address)
    fault(std::to_string(bytes) + " bytes at " + std::to_string(address) + " end after the SRAM");
  return reinterpret_cast<T*>(sram_.data() + address);
}

void Device::move(const Transfer& t, bool is_load) {
  std::byte* inside = at<std::byte>(t.address, t.blocks * t.bytes);
  if (t.buffer < 0 || static_cast<size_t>(t.buffer) >= buffers_.size()) fault("no such buffer");
  const Buffer& buffer = buffers_[static_cast<size_t>(t.buffer)];
  if (t.blocks == 0 || t.bytes == 0) return;
  if (t.from < 0 || t.from + (t.blocks - 1) * t.stride + t.bytes > buffer.bytes)
    fault("a transfer ends after the buffer");
  for (int64_t i = 0; i < t.blocks; ++i, inside += t.bytes) {
    std::byte* outside = buffer.data + t.from + i * t.stride;
    std::memcpy(is_load ? inside : outside, is_load ? outside : inside,
                static_cast<size_t>(t.bytes));
  }
}

void Device::play(const Multiply& command) {
  const Windows& w = command.windows;
  if (command.count > kArrayDepth) fault("the array adds 32 products at most");
  const int64_t in_channels = command.depth / (w.kernel_height * w.kernel_width);
  const int8_t* x = at<int8_t>(command.x, in_channels * w.height * w.width);
  const int8_t* weight = at<int8_t>(command.weight, command.channels * command.depth);
  int32_t* sums = at<int32_t>(command.sums, command.channels * w.rows * w.columns);
  const std::vector<Tap> taps = taps_of(command);
  for (int64_t o = 0; o < command.channels; ++o)
    for (int64_t i = 0; i < w.rows; ++i)
      for (int64_t j = 0; j < w.columns; ++j) {
        const int8_t* factor = weight + o * command.depth + command.first;
        int32_t sum = 0;
        for (const Tap& tap : taps) {
          const int64_t row = w.top + i * w.stride_y + tap.row;
          const int64_t column = w.left + j * w.stride_x + tap.column;
          if (row >= 0 && row < w.height && column >= 0 && column < w.width)
            sum += x[(tap.channel * w.height + row) * w.width + column] * *factor;
          ++factor;
        }
        if (std::abs(sum) > kGreatestSum) fault("a sum has more than 20 bits");
        sums[(o * w.rows + i) * w.columns + j] += sum;
      }
}

void Device::play(const SetSums& command) {
  const int32_t* bias = at<int32_t>(command.bias, command.channels);
  int32_t* sums = at<int32_t>(command.sums, command.channels * command.pixels);
  for (int64_t c = 0; c < command.channels; ++c)
    std::fill_n(sums + c * command.pixels, command.pixels, bias[c]);
}

void Device::play(const Requantize& command) {
  const int32_t* sums = at<int32_t>(command.sums, command.count);
  int8_t* y = at<int8_t>(command.y, command.count);
  const auto& [multiplier, shift] = command.ratio;
  for (int64_t i = 0; i < command.count; ++i)
    y[i] = static_cast<int8_t>(
        rounded(int64_t{sums[i]} * multiplier, shift, command.low, command.high));
}

void Device::play(const Add& command) {
  const int8_t* a = at<int8_t>(command.a, command.count);
  const int8_t* b = at<int8_t>(command.b, command.count);
  int8_t* y = at<int8_t>(command.y, command.count);
  for (int64_t i = 0; i < command.count; ++i) {
    const int64_t sum = int64_t{a[i]} * command.a_multiplier + int64_t{b[i]} * command.b_multiplier;
    y[i] = static_cast<int8_t>(rounded(sum, command.shift, command.low, command.high));
  }
}

void Device::play(const LookUp& command) {
  const int8_t* table = at<int8_t>(command.table, 256);
  const int8_t* x = at<int8_t>(command.x, command.count);
  int8_t* y = at<int8_t>(command.y, command.count);
  for (int64_t i = 0; i < command.count; ++i) y[i] = table[x[i] + 128];
}

void Device::play(const MaxPool& command) {
  const Windows& w = command.windows;
  const int8_t* x = at<int8_t>(command.x, command.planes * w.height * w.width);
  int8_t* y = at<int8_t>(command.y, command.planes * w.rows * w.columns);
  for (int64_t plane = 0; plane < command.planes; ++plane, x += w.height * w.width)
    for (int64_t i = 0; i < w.rows; ++i)
      for (int64_t j = 0; j < w.columns; ++j) {
        int8_t greatest = -128;
        for (int64_t u = 0; u < w.kernel_height; ++u)
          for (int64_t v = 0; v < w.kernel_width; ++v) {
            const int64_t row = w.top + i * w.stride_y + u;
            const int64_t column = w.left + j * w.stride_x + v;
            if (row >= 0 && row < w.height && column >= 0 && column < w.width)
              greatest = std::max(greatest, x[row * w.width + column]);
          }
        *y++ = greatest;
      }
}

void Device::play(const Quantize& command) {
  const float* x = at<float>(command.x, command.count);
  int8_t* y = at<int8_t>(command.y, command.count);
  const float low = static_cast<float>(command.low), high = static_cast<float>(command.high);
  for (int64_t i = 0; i < command.count; ++i) {
    const float steps = std::nearbyint(x[i] / command.scale);
    y[i] = static_cast<int8_t>(steps > low ? std::min(steps, high) : low);  // NaN gives low
  }
}

void Device::play(const Dequantize& command) {
  const int8_t* x = at<int8_t>(command.x, command.count);
  float* y = at<float>(command.y, command.count);
  for (int64_t i = 0; i < command.count; ++i) y[i] = command.scale * static_cast<float>(x[i]);
}

void Device::play(const Swish& command) {
  const float* x = at<float>(command.x, command.count);
  float* y = at<float>(command.y, command.count);
  for (int64_t i = 0; i < command.count; ++i) y[i] = x[i] / (1 + std::exp(-command.beta * x[i]));
}

void Device::run(std::span<const Command> queue, std::span<const Buffer> buffers) {
  buffers_ = buffers;
  for (const Command& command : queue)
    std::visit([this](const auto& unit) { play(unit); }, command);
}

}  // namespace acme
