// The first half of row_product.h: ranges, scales and zero points, bytes.
#include <algorithm>

#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_product.h"

namespace octet::xnnpack {
namespace {

struct Call {
  const RowQuantization& quantization;
  RowLayout layout;
  const float* from;
  std::byte* to;

  RowParameters& parameters(int64_t row) const { return reinterpret_cast<RowParameters*>(to)[row]; }
  float* range(int64_t row) const {
    return reinterpret_cast<float*>(to + layout.ranges()) + 2 * row;
  }
  void find_row_range(int64_t row) const {
    find_range(from + row * layout.width, layout.width, range(row), range(row) + 1);
  }
};

void find_ranges(void* context, size_t first, size_t count) {
  const Call& call = *static_cast<const Call*>(context);
  for (size_t i = first; i < first + count; ++i) call.find_row_range(static_cast<int64_t>(i));
}

// One range for all rows of a block.
void join_ranges(const Call& call) {
  const RowBlocks& blocks = call.quantization.blocks;
  for (int64_t first = 0; first < blocks.rows; first += blocks.rows_per_block) {
    float low = 0, high = 0;
    for (int64_t row = first; row < first + blocks.rows_per_block; ++row) {
      low = std::min(low, call.range(row)[0]);
      high = std::max(high, call.range(row)[1]);
    }
    for (int64_t row = first; row < first + blocks.rows_per_block; ++row) {
      call.range(row)[0] = low;
      call.range(row)[1] = high;
    }
  }
}

void quantize_rows(void* context, size_t first, size_t count) {
  const Call& call = *static_cast<const Call*>(context);
  const DynamicMapping& mapping = call.quantization.mapping;
  const int lowest = lowest_byte();
  for (size_t i = first; i < first + count; ++i) {
    const int64_t row = static_cast<int64_t>(i);
    if (call.quantization.blocks.rows_per_block == 1) call.find_row_range(row);
    const DynamicStep step = choose_byte_step(mapping, call.range(row)[0], call.range(row)[1]);
    call.parameters(row) = {
        static_cast<int32_t>(step.zero_point - static_cast<double>(mapping.quant_min)) + lowest,
        static_cast<float>(step.scale)};
    uint8_t* values =
        reinterpret_cast<uint8_t*>(call.to + call.layout.values()) + row * call.layout.stride();
    quantize_block(call.from + row * call.layout.width, values, call.layout.width, mapping, step,
                   lowest);
  }
}

}  // namespace

void run(const RowQuantization& quantization, const std::byte* from, std::byte* to,
         pthreadpool_t pool) {
  constexpr int64_t kElementsPerPart = 16384;
  const RowBlocks& blocks = quantization.blocks;
  Call call = {
      quantization, {blocks.rows, blocks.width},
       reinterpret_cast<const float*>(from), to
  };
  const size_t rows = static_cast<size_t>(blocks.rows),
               part = static_cast<size_t>(std::max<int64_t>(kElementsPerPart / blocks.width, 1));
  if (blocks.rows_per_block > 1) {
    pthreadpool_parallelize_1d_tile_1d(pool, find_ranges, &call, rows, part, 0);
    join_ranges(call);
  }
  pthreadpool_parallelize_1d_tile_1d(pool, quantize_rows, &call, rows, part, 0);
  std::fill_n(&call.parameters(blocks.rows), RowLayout::kExtraRows,
              call.parameters(blocks.rows - 1));
}

size_t RowFakeQuantization::scratch_bytes() const {
  return RowLayout{quantization.blocks.rows, quantization.blocks.width}.bytes();
}

void run(const RowFakeQuantization& fake, std::span<const std::byte* const> from, std::byte* to,
         std::byte* scratch, pthreadpool_t pool) {
  const RowLayout layout = {fake.quantization.blocks.rows, fake.quantization.blocks.width};
  run(fake.quantization, from[0], scratch, pool);
  const RowParameters* parameters = reinterpret_cast<const RowParameters*>(scratch);
  const bool is_signed = lowest_byte() < 0;
  for_parts(pool, layout.rows, rows_per_part(layout.width), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const std::byte* bytes =
          scratch + layout.values() + static_cast<size_t>(row * layout.stride());
      float* reals = reinterpret_cast<float*>(to) + row * layout.width;
      const auto dequantize = [&]<typename T>(const T* values) {
        run_vectorised([=, width = layout.width, step = parameters[row].scale,
                        zero = parameters[row].zero_point]() __attribute__((always_inline)) {
          float* __restrict y = reals;
          for (int64_t i = 0; i < width; ++i) y[i] = step * static_cast<float>(values[i] - zero);
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
