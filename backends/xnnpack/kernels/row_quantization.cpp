// Implements the quantization of row_product.h: ranges, scales and zero points, bytes.
#include <algorithm>
#include <cstring>

#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_product.h"

namespace octet::xnnpack {
namespace {

struct Call {
  const RowQuantization& quantization;
  RowLayout layout;
  const float* from;
  std::byte* to;

  RowParameters* parameters() const { return reinterpret_cast<RowParameters*>(to); }
  RowRange* ranges() const { return reinterpret_cast<RowRange*>(to + layout.ranges()); }
  // The range of neighboring rows.
  RowRange find_range(int64_t first, int64_t rows) const {
    RowRange range;
    octet::find_range(from + first * layout.width, rows * layout.width, &range.low, &range.high);
    return range;
  }
  DynamicStep step_of(RowRange range) const {
    return choose_byte_step(quantization.mapping, range.low, range.high);
  }
  RowParameters parameters_of(const DynamicStep& step) const {
    const double lowest = static_cast<double>(quantization.mapping.quant_min);
    return {static_cast<int32_t>(step.zero_point - lowest) + lowest_byte(),
            static_cast<float>(step.scale)};
  }
  void quantize(int64_t first, int64_t rows, const DynamicStep& step) const {
    constexpr int64_t kTogether = 1024;  // bytes
    uint8_t* const values = reinterpret_cast<uint8_t*>(to + layout.values());
    const int64_t width = layout.width, stride = layout.stride();
    const auto quantize_to = [&](uint8_t* bytes, int64_t row, int64_t count) {
      quantize_block(from + row * width, bytes, count * width, quantization.mapping, step,
                     lowest_byte());
    };
    if (width == stride || rows == 1) return quantize_to(values + first * stride, first, rows);
    if (2 * width > kTogether) {
      for (int64_t row = first; row < first + rows; ++row)
        quantize_to(values + row * stride, row, 1);
      return;
    }
    uint8_t bytes[kTogether + 4];
    for (int64_t row = first, some = kTogether / width; row < first + rows; row += some) {
      some = std::min(some, first + rows - row);
      quantize_to(bytes, row, some);
      std::memset(bytes + some * width, 0, 4);
      spread(bytes, width, some, values + row * stride, stride);
    }
  }

 private:
  // Copies rows and pads each to a multiple of four bytes with the bytes that follow.
  static void spread(const uint8_t* bytes, int64_t width, int64_t rows, uint8_t* to,
                     int64_t stride) {
    for (int64_t i = 0; i < rows; ++i, bytes += width)
      for (int64_t k = 0; k < stride; k += 4, to += 4) std::memcpy(to, bytes + k, 4);
  }
};

// Computes one scale per row.
void quantize_rows(const Call& call, pthreadpool_t pool) {
  for_parts(pool, call.layout.rows, rows_per_part(call.layout.width),
            [&](int64_t first, int64_t last) {
              for (int64_t row = first; row < last; ++row) {
                const DynamicStep step = call.step_of(call.find_range(row, 1));
                call.parameters()[row] = call.parameters_of(step);
                call.quantize(row, 1, step);
              }
            });
}

// Computes one scale per block of rows. Ranges of parts of blocks are stored at their first rows.
void quantize_blocks(const Call& call, pthreadpool_t pool) {
  const RowBlocks& blocks = call.quantization.blocks;
  const int64_t part = std::min(rows_per_part(blocks.width), blocks.rows_per_block),
                parts_per_block = (blocks.rows_per_block + part - 1) / part,
                parts = blocks.rows / blocks.rows_per_block * parts_per_block;
  const auto for_rows = [&](const auto& body) {
    for_parts(pool, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t block = i / parts_per_block * blocks.rows_per_block,
                      row = block + i % parts_per_block * part;
        body(block, row, std::min(part, block + blocks.rows_per_block - row));
      }
    });
  };
  for_rows(
      [&](int64_t, int64_t row, int64_t rows) { call.ranges()[row] = call.find_range(row, rows); });
  for_rows([&](int64_t block, int64_t row, int64_t rows) {
    RowRange range = {0, 0};
    for (int64_t at = block; at < block + blocks.rows_per_block; at += part)
      range = {std::min(range.low, call.ranges()[at].low),
               std::max(range.high, call.ranges()[at].high)};
    const DynamicStep step = call.step_of(range);
    std::fill_n(call.parameters() + row, rows, call.parameters_of(step));
    call.quantize(row, rows, step);
  });
}

}  // namespace

void RowQuantization::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                          pthreadpool_t pool) const {
  const Call call = {
      *this, {blocks.rows, blocks.width}, reinterpret_cast<const float*>(from[0]), to};
  blocks.rows_per_block > 1 ? quantize_blocks(call, pool) : quantize_rows(call, pool);
  std::fill_n(call.parameters() + blocks.rows, RowLayout::kExtraRows,
              call.parameters()[blocks.rows - 1]);
}

size_t RowFakeQuantization::scratch_bytes() const {
  return RowLayout{quantization.blocks.rows, quantization.blocks.width}.bytes();
}

void RowFakeQuantization::run(std::span<const std::byte* const> from, std::byte* to,
                              std::byte* scratch, pthreadpool_t pool) const {
  const RowLayout layout = {quantization.blocks.rows, quantization.blocks.width};
  quantization.run(from, scratch, nullptr, pool);
  const RowParameters* parameters = reinterpret_cast<const RowParameters*>(scratch);
  const bool is_signed = lowest_byte() < 0;
  for_parts(pool, layout.rows, rows_per_part(layout.width), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const std::byte* bytes =
          scratch + layout.values() + static_cast<size_t>(row * layout.stride());
      float* reals = reinterpret_cast<float*>(to) + row * layout.width;
      const auto dequantize = [&]<typename T>(const T* values) {
        run_vectorized([=, width = layout.width, step = parameters[row]]()
                           __attribute__((always_inline)) {
                             make_real(values, reals, width, step.scale, step.zero_point);
                           });
      };
      if (is_signed)
        dequantize(reinterpret_cast<const int8_t*>(bytes));
      else
        dequantize(reinterpret_cast<const uint8_t*>(bytes));
    }
  });
}

}  // namespace octet::xnnpack
