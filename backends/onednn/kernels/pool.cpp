// Averages and maxima over windows of channels-last tensors. oneDNN 3.2's max pooling of bytes is
// slow with few channels.
#include "backends/onednn/kernels/pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/kernels/isa.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

constexpr int64_t kPoolChannels = 64;  // channels whose sums or maxima stay in registers

// ---- averages: sums per channel, scaled when stored

struct AveragePlan {
  int64_t batch = 1;
  int64_t channels = 1;
  int64_t in[3] = {1, 1, 1};
  std::vector<Window> windows[3];
  int64_t divisor = 0;  // 0: the product of the windows' counts
  float factor = 1;     // x.scale / y.scale
  int x_zero_point = 0;
  float low = 0, high = 0;  // of floats
  ByteOutput output;        // of bytes, in steps of y
};

template <typename X, typename Sum>
[[gnu::always_inline]] inline void sum_window(const X* x, const AveragePlan& p, const Window& d,
                                              const Window& h, const Window& w, int64_t channel,
                                              int64_t count, Sum* sums) {
  for (int64_t c = 0; c < count; ++c) sums[c] = 0;
  for (int64_t i = d.begin; i < d.end; ++i)
    for (int64_t j = h.begin; j < h.end; ++j) {
      const X* row = x + ((i * p.in[1] + j) * p.in[2] + w.begin) * p.channels + channel;
      if (count == kPoolChannels) {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < kPoolChannels; ++c) sums[c] += row[c];
      } else {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < count; ++c) sums[c] += row[c];
      }
    }
}

template <typename X, typename Y, typename Sum>
[[gnu::always_inline]] inline void average(const X* x, Y* y, const AveragePlan& p,
                                           int64_t channel_begin, int64_t channel_end) {
  Sum sums[kPoolChannels];
  const ByteOutput output = p.output;
  const int64_t pixels = p.in[0] * p.in[1] * p.in[2];
  for (int64_t n = 0; n < p.batch; ++n, x += pixels * p.channels)
    for (const Window& d : p.windows[0])
      for (const Window& h : p.windows[1])
        for (const Window& w : p.windows[2]) {
          const int64_t read = std::max<int64_t>(d.end - d.begin, 0) *
                               std::max<int64_t>(h.end - h.begin, 0) *
                               std::max<int64_t>(w.end - w.begin, 0);
          const int64_t divisor = p.divisor != 0 ? p.divisor : d.count * h.count * w.count;
          const float factor = p.factor / static_cast<float>(divisor);
          const Sum offset = static_cast<Sum>(read * p.x_zero_point);
          for (int64_t channel = channel_begin; channel < channel_end; channel += kPoolChannels) {
            const int64_t count = std::min(kPoolChannels, channel_end - channel);
            sum_window<X, Sum>(x, p, d, h, w, channel, count, sums);
            for (int64_t c = 0; c < count; ++c) {
              float v = static_cast<float>(sums[c] - offset) * factor;
              if constexpr (std::is_same_v<Y, float>) {
                v = v < p.low ? p.low : v;
                y[channel + c] = v > p.high ? p.high : v;
              } else {
                y[channel + c] = byte_of_steps(v, output);
              }
            }
          }
          y += p.channels;
        }
}

using AverageFunction = void (*)(const std::byte*, std::byte*, const AveragePlan&,
                                 int64_t channel_begin, int64_t channel_end);

template <typename X, typename Y, typename Sum>
void run_average(const std::byte* x, std::byte* y, const AveragePlan& p, int64_t begin,
                 int64_t end) {
  run_vectorized([&]() __attribute__((always_inline)) {
    average<X, Y, Sum>(reinterpret_cast<const X*>(x), reinterpret_cast<Y*>(y), p, begin, end);
  });
}

// ---- maxima

struct MaximumPlan {
  int64_t channels = 1;
  int64_t in[3] = {1, 1, 1};
  std::vector<Window> windows[3];
};

[[gnu::always_inline]] inline void window_maximum(const uint8_t* x, const MaximumPlan& p,
                                                  const Window& d, const Window& h, const Window& w,
                                                  int64_t count, uint8_t* y) {
  uint8_t most[kPoolChannels] = {};
  for (int64_t i = d.begin; i < d.end; ++i)
    for (int64_t j = h.begin; j < h.end; ++j) {
      const uint8_t* row = x + ((i * p.in[1] + j) * p.in[2] + w.begin) * p.channels;
      if (count == kPoolChannels) {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < kPoolChannels; ++c) most[c] = row[c] > most[c] ? row[c] : most[c];
      } else {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < count; ++c) most[c] = row[c] > most[c] ? row[c] : most[c];
      }
    }
  std::copy_n(most, count, y);
}

// Computes one line of outputs.
void maximum_line(const uint8_t* x, uint8_t* y, const MaximumPlan& p, const Window& d,
                  const Window& h) {
  run_vectorized([&]() __attribute__((always_inline)) {
    for (const Window& w : p.windows[2]) {
      for (int64_t channel = 0; channel < p.channels; channel += kPoolChannels) {
        const int64_t count = std::min(kPoolChannels, p.channels - channel);
        window_maximum(x + channel, p, d, h, w, count, y + channel);
      }
      y += p.channels;
    }
  });
}

}  // namespace

Loop average_loop(const Stored& x, const Stored& y, const std::vector<Window> (&windows)[3],
                  int64_t divisor, const Clamp& clamp) {
  OCTET_ASSERT(x.shape.size() == 5 && y.shape.size() == 5, "averages take three spatial axes");
  AveragePlan p;
  p.batch = x.shape[0];
  p.channels = x.shape[1];
  for (size_t i = 0; i < 3; ++i) {
    p.in[i] = x.shape[i + 2];
    p.windows[i] = windows[i];
  }
  p.divisor = divisor;
  p.factor = static_cast<float>(static_cast<double>(x.quant_params.scale) / y.quant_params.scale);
  p.x_zero_point = x.quant_params.zero_point;
  const bool from_bytes = x.quant_params.is_integer(), to_bytes = y.quant_params.is_integer();
  if (to_bytes) {
    p.output = byte_output_of({y.quant_params.type, 1, y.quant_params.zero_point},
                              clamp_in_steps(y.quant_params, clamp));
  } else {
    p.low = static_cast<float>(clamp.min.value_or(-std::numeric_limits<float>::infinity()));
    p.high = static_cast<float>(clamp.max.value_or(std::numeric_limits<float>::infinity()));
  }
  const AverageFunction function = from_bytes ? to_bytes ? run_average<uint8_t, int8_t, int32_t>
                                                         : run_average<uint8_t, float, int32_t>
                                   : to_bytes ? run_average<float, int8_t, float>
                                              : run_average<float, float, float>;
  const int64_t chunks = (p.channels + kPoolChannels - 1) / kPoolChannels;
  const int64_t chunk_elements = x.numel() / p.channels * kPoolChannels;
  return [p, function, chunks, chunk_elements](std::byte* const* arguments) {
    for_parts(chunks, chunk_elements, [&](int64_t first, int64_t last) {
      function(arguments[0], arguments[1], p, first * kPoolChannels,
               std::min(last * kPoolChannels, p.channels));
    });
  };
}

Loop maximum_loop(const Stored& x, const Stored& y, const std::vector<Window> (&windows)[3]) {
  OCTET_ASSERT(x.shape.size() == 5 && y.shape.size() == 5 && x.quant_params.type == ElementType::u8,
               "maxima take bytes with three spatial axes");
  MaximumPlan p;
  p.channels = x.shape[1];
  for (size_t i = 0; i < 3; ++i) {
    p.in[i] = x.shape[i + 2];
    p.windows[i] = windows[i];
  }
  const int64_t batch = x.shape[0], depth = y.shape[2], height = y.shape[3],
                line = y.shape[4] * p.channels;
  const int64_t image = x.numel() / batch;
  return [=](std::byte* const* arguments) {
    for_parts(batch * depth * height, line, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        maximum_line(reinterpret_cast<const uint8_t*>(arguments[0]) + i / height / depth * image,
                     reinterpret_cast<uint8_t*>(arguments[1]) + i * line, p,
                     p.windows[0][static_cast<size_t>(i / height % depth)],
                     p.windows[1][static_cast<size_t>(i % height)]);
    });
  };
}

}  // namespace octet::onednn
