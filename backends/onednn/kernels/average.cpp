// Averages over windows of channels-last tensors: sums per channel, scaled on the way out.
#include "backends/onednn/kernels/pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/quantize_row.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

struct AveragePlan {
  int64_t batch = 1;
  int64_t channels = 1;
  int64_t in[3] = {1, 1, 1};
  std::vector<Window> windows[3];
  int64_t divisor = 0;  // 0: the product of the windows' counts
  float factor = 1;     // x.scale / y.scale
  int x_zero_point = 0;
  int y_zero_point = 0;
  float low = 0;  // of y, without its zero point
  float high = 0;
};

// The running sums stay in registers over chunks of this many channels.
constexpr int64_t kChunk = 64;

template <typename X, typename Sum>
[[gnu::always_inline]] inline void sum_window(const X* x, const AveragePlan& p, const Window& d,
                                              const Window& h, const Window& w, int64_t channel,
                                              int64_t count, Sum* sums) {
  for (int64_t c = 0; c < count; ++c) sums[c] = 0;
  for (int64_t i = d.begin; i < d.end; ++i)
    for (int64_t j = h.begin; j < h.end; ++j) {
      const X* row = x + ((i * p.in[1] + j) * p.in[2] + w.begin) * p.channels + channel;
      if (count == kChunk) {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < kChunk; ++c) sums[c] += row[c];
      } else {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < count; ++c) sums[c] += row[c];
      }
    }
}

template <typename X, typename Y, typename Sum>
[[gnu::always_inline]] inline void average(const X* x, Y* y, const AveragePlan& p,
                                           int64_t channel_begin, int64_t channel_end) {
  Sum sums[kChunk];
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
          for (int64_t channel = channel_begin; channel < channel_end; channel += kChunk) {
            const int64_t count = std::min(kChunk, channel_end - channel);
            sum_window<X, Sum>(x, p, d, h, w, channel, count, sums);
            for (int64_t c = 0; c < count; ++c) {
              float v = static_cast<float>(sums[c] - offset) * factor;
              v = v < p.low ? p.low : v;
              v = v > p.high ? p.high : v;
              if constexpr (std::is_same_v<Y, float>) {
                y[channel + c] = v;
              } else {
                y[channel + c] =
                    static_cast<Y>(static_cast<int>((v + kRounder) - kRounder) + p.y_zero_point);
              }
            }
          }
          y += p.channels;
        }
}

template <typename X, typename Y, typename Sum>
void average_generic(const std::byte* x, std::byte* y, const AveragePlan& p, int64_t begin,
                     int64_t end) {
  average<X, Y, Sum>(reinterpret_cast<const X*>(x), reinterpret_cast<Y*>(y), p, begin, end);
}
#if defined(__x86_64__)
template <typename X, typename Y, typename Sum>
[[gnu::target("avx2")]] void average_avx2(const std::byte* x, std::byte* y, const AveragePlan& p,
                                          int64_t begin, int64_t end) {
  average<X, Y, Sum>(reinterpret_cast<const X*>(x), reinterpret_cast<Y*>(y), p, begin, end);
}
template <typename X, typename Y, typename Sum>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void average_avx512(
    const std::byte* x, std::byte* y, const AveragePlan& p, int64_t begin, int64_t end) {
  average<X, Y, Sum>(reinterpret_cast<const X*>(x), reinterpret_cast<Y*>(y), p, begin, end);
}
#endif

using AverageFunction = void (*)(const std::byte*, std::byte*, const AveragePlan&,
                                 int64_t channel_begin, int64_t channel_end);

template <typename X, typename Y, typename Sum>
AverageFunction choose() {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512)) return average_avx512<X, Y, Sum>;
  if (may_use(Isa::kAvx2)) return average_avx2<X, Y, Sum>;
#endif
  return average_generic<X, Y, Sum>;
}

template <typename X, typename Sum>
AverageFunction choose(ElementType y) {
  if (y == ElementType::f32) return choose<X, float, Sum>();
  return y == ElementType::u8 ? choose<X, uint8_t, Sum>() : choose<X, int8_t, Sum>();
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
  p.y_zero_point = y.quant_params.zero_point;
  if (y.quant_params.is_integer()) {
    const StepRange range = clamp_in_steps(y.quant_params, clamp);
    p.low = static_cast<float>(range.low - y.quant_params.zero_point);
    p.high = static_cast<float>(range.high - y.quant_params.zero_point);
  } else {
    p.low = static_cast<float>(clamp.min.value_or(-std::numeric_limits<float>::infinity()));
    p.high = static_cast<float>(clamp.max.value_or(std::numeric_limits<float>::infinity()));
  }
  const AverageFunction function = x.quant_params.is_integer()
                                       ? choose<uint8_t, int32_t>(y.quant_params.type)
                                       : choose<float, float>(y.quant_params.type);
  const int64_t chunks = (p.channels + kChunk - 1) / kChunk;
  const int64_t chunk_elements = x.numel() / p.channels * kChunk;
  return [p, function, chunks, chunk_elements](std::byte* const* arguments) {
    for_parts(chunks, chunk_elements, [&](int64_t first, int64_t last) {
      function(arguments[0], arguments[1], p, first * kChunk, std::min(last * kChunk, p.channels));
    });
  };
}

}  // namespace octet::onednn
