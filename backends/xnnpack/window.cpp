#include "backends/xnnpack/window.h"

#include <algorithm>

#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

struct Pair {
  uint32_t height;
  uint32_t width;
};

// [w] -> {filler, w}; [h, w] -> {h, w}
Pair pair_of(const std::vector<int64_t>& values, uint32_t filler) {
  OCTET_ASSERT(values.size() == 1 || values.size() == 2, "a window has one or two dimensions");
  if (values.size() == 1) return {filler, static_cast<uint32_t>(values[0])};
  return {static_cast<uint32_t>(values[0]), static_cast<uint32_t>(values[1])};
}

// The attribute with one entry per dimension; `fallback` when absent or empty.
std::vector<int64_t> per_dimension(const ProgramOp& op, const attr::Integers& key,
                                   const std::vector<int64_t>& fallback) {
  std::vector<int64_t> values = op.get(key);
  if (values.empty()) return fallback;
  if (values.size() == 1) values.resize(fallback.size(), values[0]);
  return values;
}

// Padding after the input so that `out` windows fit.
uint32_t padding_behind(int64_t in, int64_t out, uint32_t kernel, uint32_t stride,
                        uint32_t dilation, uint32_t pad_before) {
  const int64_t reach = (out - 1) * stride + int64_t{dilation} * (kernel - 1) + 1;
  return static_cast<uint32_t>(std::max<int64_t>(0, reach - in - pad_before));
}

}  // namespace

Window window_of(const ProgramOp& op, const std::vector<int64_t>& kernel) {
  const std::vector<int64_t> ones(kernel.size(), 1);
  const std::vector<int64_t> zeros(kernel.size(), 0);
  const bool is_pooling = op.is("max_pool") || op.is("avg_pool");
  const Pair size = pair_of(kernel, 1);
  const Pair stride = pair_of(per_dimension(op, attr::kStride, is_pooling ? kernel : ones), 1);
  const Pair dilation = pair_of(per_dimension(op, attr::kDilation, ones), 1);
  const std::vector<int64_t> before = per_dimension(op, attr::kPadding, zeros);
  const Pair padding = pair_of(before, 0);
  const Pair padding_end = pair_of(per_dimension(op, attr::kPaddingEnd, before), 0);
  const Pair adjust = pair_of(per_dimension(op, attr::kOutputPadding, zeros), 0);
  return {.kernel_height = size.height,
          .kernel_width = size.width,
          .stride_height = stride.height,
          .stride_width = stride.width,
          .dilation_height = dilation.height,
          .dilation_width = dilation.width,
          .pad_top = padding.height,
          .pad_left = padding.width,
          .pad_bottom = padding_end.height,
          .pad_right = padding_end.width,
          .adjust_height = adjust.height,
          .adjust_width = adjust.width};
}

Window pooling_window_of(const ProgramOp& op, const std::vector<int64_t>& in,
                         const std::vector<int64_t>& out) {
  const std::vector<int64_t> kernel =
      per_dimension(op, attr::kKernelSize, std::vector<int64_t>(in.size() - 2, 1));
  Window window = window_of(op, kernel);
  if (in.size() == 4) {
    window.pad_bottom = padding_behind(in[2], out[2], window.kernel_height, window.stride_height,
                                       window.dilation_height, window.pad_top);
  }
  window.pad_right = padding_behind(in.back(), out.back(), window.kernel_width, window.stride_width,
                                    window.dilation_width, window.pad_left);
  return window;
}

}  // namespace octet::xnnpack
