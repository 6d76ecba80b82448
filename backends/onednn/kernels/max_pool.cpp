// Max pooling of bytes, channels-last: oneDNN 3.2's kernel handles few channels at a time.
#include "backends/onednn/kernels/pool.h"

#include <algorithm>

#include "backends/onednn/kernels/isa.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

constexpr int64_t kChunk = 64;  // channels whose maxima stay in registers

struct MaximumPlan {
  int64_t channels = 1;
  int64_t in[3] = {1, 1, 1};
  std::vector<Window> windows[3];
};

[[gnu::always_inline]] inline void window_maximum(const uint8_t* x, const MaximumPlan& p,
                                                  const Window& d, const Window& h, const Window& w,
                                                  int64_t count, uint8_t* y) {
  uint8_t most[kChunk] = {};
  for (int64_t i = d.begin; i < d.end; ++i)
    for (int64_t j = h.begin; j < h.end; ++j) {
      const uint8_t* row = x + ((i * p.in[1] + j) * p.in[2] + w.begin) * p.channels;
      if (count == kChunk) {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < kChunk; ++c) most[c] = row[c] > most[c] ? row[c] : most[c];
      } else {
        for (int64_t k = w.begin; k < w.end; ++k, row += p.channels)
          for (int64_t c = 0; c < count; ++c) most[c] = row[c] > most[c] ? row[c] : most[c];
      }
    }
  std::copy_n(most, count, y);
}

// One line of outputs.
void maximum_line(const uint8_t* x, uint8_t* y, const MaximumPlan& p, const Window& d,
                  const Window& h) {
  run_vectorised([&]() __attribute__((always_inline)) {
    for (const Window& w : p.windows[2]) {
      for (int64_t channel = 0; channel < p.channels; channel += kChunk) {
        const int64_t count = std::min(kChunk, p.channels - channel);
        window_maximum(x + channel, p, d, h, w, count, y + channel);
      }
      y += p.channels;
    }
  });
}

}  // namespace

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
