// upsample: an own loop on channels-last tensors, u8 or f32. Each output pixel is a weighted sum of
// up to four input pixels, whose weights add up to 1.
#include <algorithm>
#include <cmath>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/ops.h"
#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/quantize_row.h"

namespace octet::onednn {
namespace {

// Input positions of one output coordinate, and the weight of the second.
struct Tap {
  int64_t low = 0;
  int64_t high = 0;
  float weight = 0;
};

std::vector<Tap> taps_of(const ProgramOp& op, double scale, int64_t in, int64_t out) {
  const bool is_nearest = op.text("mode", "nearest") == "nearest",
             align_corners = op.flag("align_corners");
  std::vector<Tap> taps;
  for (int64_t o = 0; o < out; ++o) {
    if (is_nearest) {
      const int64_t at = std::min(
          static_cast<int64_t>(std::floor(static_cast<float>(o) * static_cast<float>(scale))),
          in - 1);
      taps.push_back({at, at, 0});
      continue;
    }
    const double position = align_corners
                                ? static_cast<double>(o) * scale
                                : std::max(0.0, (static_cast<double>(o) + 0.5) * scale - 0.5);
    const int64_t low = std::min(static_cast<int64_t>(position), in - 1);
    taps.push_back(
        {low, std::min(low + 1, in - 1), static_cast<float>(position - static_cast<double>(low))});
  }
  return taps;
}

struct UpsamplePlan {
  int64_t batch, channels, height, width;  // of x
  std::vector<Tap> rows, columns;
  QuantizeRow quantize;  // u8 and s8 outputs
  float x_zero_point, x_scale;
};

constexpr int64_t kChunk = 64;

template <typename X, typename Y>
[[gnu::always_inline]] inline void write_pixel(const UpsamplePlan& p, const X* x, Y* y,
                                               const Tap& row, const Tap& column) {
  const X* top_left = x + (row.low * p.width + column.low) * p.channels;
  const X* top_right = x + (row.low * p.width + column.high) * p.channels;
  const X* bottom_left = x + (row.high * p.width + column.low) * p.channels;
  const X* bottom_right = x + (row.high * p.width + column.high) * p.channels;
  const float v = row.weight, h = column.weight, zero = p.x_zero_point, scale = p.x_scale;
  for (int64_t begin = 0; begin < p.channels; begin += kChunk) {
    const int64_t count = std::min(kChunk, p.channels - begin);
    float sums[kChunk];
    for (int64_t c = 0; c < count; ++c) {
      const float top = static_cast<float>(top_left[begin + c]) * (1 - h) +
                        static_cast<float>(top_right[begin + c]) * h;
      const float bottom = static_cast<float>(bottom_left[begin + c]) * (1 - h) +
                           static_cast<float>(bottom_right[begin + c]) * h;
      sums[c] = ((top * (1 - v) + bottom * v) - zero) * scale;
    }
    if constexpr (std::is_same_v<Y, float>) {
      std::copy_n(sums, count, y + begin);
    } else {
      quantize_row(sums, y + begin, count, p.quantize);
    }
  }
}

template <typename X, typename Y>
Loop upsample_loop(UpsamplePlan plan) {
  return [p = std::move(plan)](std::byte* const* arguments) {
    const int64_t rows = static_cast<int64_t>(p.rows.size()),
                  columns = static_cast<int64_t>(p.columns.size());
    for_parts(p.batch * rows, columns * p.channels, [&](int64_t first, int64_t last) {
      run_vectorised([&]() __attribute__((always_inline)) {
        for (int64_t i = first; i < last; ++i) {
          const X* x =
              reinterpret_cast<const X*>(arguments[0]) + i / rows * p.height * p.width * p.channels;
          Y* y = reinterpret_cast<Y*>(arguments[1]) + i * columns * p.channels;
          const Tap& row = p.rows[static_cast<size_t>(i % rows)];
          for (int64_t j = 0; j < columns; ++j)
            write_pixel(p, x, y + j * p.channels, row, p.columns[static_cast<size_t>(j)]);
        }
      });
    });
  };
}

}  // namespace

void emit_upsample(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims in = builder.tensor(op.inputs[0]).shape, out = builder.tensor(op.outputs[0]).shape;
  const Stored kept = builder.read(op.inputs[0]);
  const Stored x = convert(builder, kept, as_unsigned(kept.quant_params), channels_last(in));
  const QuantParams wanted = builder.output_quant_params(op.outputs[0]);
  const Stored y = builder.allocate(out, wanted, channels_last(out));
  const std::vector<double> scales = op.reals("scales");
  UpsamplePlan plan{in[0],
                    in[1],
                    in[2],
                    in[3],
                    taps_of(op, scales[0], in[2], out[2]),
                    taps_of(op, scales[1], in[3], out[3]),
                    quantize_row_of(wanted),
                    static_cast<float>(x.quant_params.zero_point),
                    x.quant_params.scale};
  const bool from_bytes = x.quant_params.is_integer();
  Loop loop;
  if (wanted.type == ElementType::u8)
    loop = from_bytes ? upsample_loop<uint8_t, uint8_t>(plan) : upsample_loop<float, uint8_t>(plan);
  if (wanted.type == ElementType::s8)
    loop = from_bytes ? upsample_loop<uint8_t, int8_t>(plan) : upsample_loop<float, int8_t>(plan);
  if (!wanted.is_integer())
    loop = from_bytes ? upsample_loop<uint8_t, float>(plan) : upsample_loop<float, float>(plan);
  builder.add_loop("upsample", std::move(loop), {x.place, y.place});
  builder.define(op.outputs[0], y);
}

}  // namespace octet::onednn
