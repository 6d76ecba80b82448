// Imports stft and istft. Frames times a window times a transform are one strided convolution with
// constant kernels; adding overlapping frames is its transpose.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lowering/import/steps.h"

namespace octet {
namespace {

struct Frames {
  int64_t size, hop, bins;       // size: of a frame and of its transform
  std::vector<double> window;    // `size` of them
  bool is_half, is_orthonormal;  // is_half: size / 2 + 1 bins
};

// The window, centered in a frame; nullopt if it is not a constant.
std::optional<std::vector<double>> find_window(Steps& s, const Node& node, int64_t size) {
  const int64_t length = node.int_or("win_length", size), left = (size - length) / 2;
  if (length < 1 || length > size) return std::nullopt;
  std::vector<double> window(static_cast<size_t>(size), 0);
  const auto first = window.begin() + left;
  std::fill_n(first, length, 1.0);
  const Value* value = node.find_input("window");
  if (value == nullptr) return window;
  const Tensor* given = s.find_fixed_constant(value);
  if (given == nullptr || given->dtype() != DType::kFloat32 || given->numel() != length)
    return std::nullopt;
  const Tensor weights = given->contiguous();
  std::copy_n(weights.data<float>(), length, first);
  return window;
}

// Refuses the node and returns nullopt if the call is not a constant transform of reals.
std::optional<Frames> frames_of(Steps& s, const Node& node, bool is_half) {
  Frames frames{node.int_or("n_fft", 0), 0, 0, {}, is_half, node.bool_or("normalized", false)};
  frames.hop = node.int_or("hop_length", frames.size / 4);
  frames.bins = is_half ? frames.size / 2 + 1 : frames.size;
  std::optional<std::vector<double>> window = find_window(s, node, frames.size);
  if (frames.size < 1 || frames.hop < 1 || !window) {
    s.refuse("with a window that is not a float32 constant");
    return std::nullopt;
  }
  frames.window = std::move(*window);
  return frames;
}

// [2 bins, 1, size]: the (windowed) cosine kernels of all bins, then the negative sine kernels; to
// or from the spectrum.
enum class Way { kTo, kFrom };
Tensor kernels_of(const Frames& frames, Way way, bool has_sines = true) {
  const int64_t count = (has_sines ? 2 : 1) * frames.bins;
  const Tensor kernels = Tensor::zeros(DType::kFloat32, {count, 1, frames.size});
  const auto size = static_cast<double>(frames.size);
  double factor = frames.is_orthonormal ? 1 / std::sqrt(size) : 1;
  if (way == Way::kFrom && !frames.is_orthonormal) factor = 1 / size;
  for (int64_t bin = 0; bin < frames.bins; ++bin) {
    const bool is_twice = way == Way::kFrom && frames.is_half && bin > 0 && 2 * bin != frames.size;
    float* cosines = kernels.data<float>() + bin * frames.size;
    for (int64_t i = 0; i < frames.size; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(bin * i % frames.size) / size;
      const double weight = factor * (is_twice ? 2 : 1) * frames.window[static_cast<size_t>(i)];
      cosines[i] = static_cast<float>(weight * std::cos(angle));
      if (has_sines)
        cosines[frames.bins * frames.size + i] = static_cast<float>(-weight * std::sin(angle));
    }
  }
  return kernels;
}

Attributes steps_of(int64_t hop) {
  return {{attr::kStride, std::vector<int64_t>{hop}},
          {attr::kPadding, std::vector<int64_t>{0}},
          {attr::kDilation, std::vector<int64_t>{1}},
          {attr::kGroups, 1}};
}

// 1 / the sum of the squared windows at [start, start + size); nullopt if that is 0 somewhere.
std::optional<Tensor> inverse_envelope(const Frames& frames, int64_t count, int64_t start,
                                       int64_t size) {
  std::vector<double> envelope(static_cast<size_t>(frames.size + frames.hop * (count - 1)), 0);
  for (int64_t frame = 0; frame < count; ++frame)
    for (int64_t i = 0; i < frames.size; ++i) {
      const double weight = frames.window[static_cast<size_t>(i)];
      envelope[static_cast<size_t>(frame * frames.hop + i)] += weight * weight;
    }
  const Tensor inverse = Tensor::zeros(DType::kFloat32, {size});
  for (int64_t i = 0; i < size; ++i) {
    const double sum = envelope[static_cast<size_t>(start + i)];
    if (sum < 1e-11) return std::nullopt;  // PyTorch's limit
    inverse.data<float>()[i] = static_cast<float>(1 / sum);
  }
  return inverse;
}

}  // namespace

void import_stft(Steps& s, const Node& node) {
  if (node.bool_or("center", false) || node.bool_or("align_to_window", false))
    return s.refuse("with center or align_to_window");
  Value* result = node.outputs().front();
  if (s.dtype(s.operand("self")) != DType::kFloat32)
    return s.refuse("of another dtype than float32");
  const std::optional<Frames> frames = frames_of(s, node, node.bool_or("onesided", true));
  if (!frames) return;

  int x = s.operand("self");
  const bool is_single = s.rank(x) == 1;
  if (is_single) x = s.unsqueeze(x, 0);
  const bool is_complex_result = is_complex(result->meta->dtype);
  Sizes sizes = s.sizes_of(*result);  // [batch, bins, frames], and 2 of reals
  const SizeExpr count = sizes[sizes.size() - (is_complex_result ? 1 : 2)];
  const SizeExpr batch = s.sizes(x)[0];
  const int kernels = s.add_constant(node.name() + "_kernels", kernels_of(*frames, Way::kTo));
  const int both = s.op("conv", {s.unsqueeze(x, 1), kernels, -1}, {batch, 2 * frames->bins, count},
                        DType::kFloat32, steps_of(frames->hop));
  Sizes part_sizes = {batch, frames->bins, count};
  if (is_single) part_sizes.erase(part_sizes.begin());
  const auto part = [&](int64_t start) {
    const int taken = s.slice(both, 1, start, frames->bins);
    return is_single ? s.reshape(taken, part_sizes) : taken;
  };
  const int real = part(0), imaginary = part(frames->bins);
  if (is_complex_result) return s.give_parts(result, {real, imaginary});
  s.give(s.cat({s.unsqueeze(real, -1), s.unsqueeze(imaginary, -1)}, -1));
}

void import_istft(Steps& s, const Node& node) {
  const std::optional<ComplexParts> given = s.parts_of(node.find_input("self"));
  Value* result = node.outputs().front();
  if (!given || is_complex(result->meta->dtype))
    return s.refuse("of another dtype than complex64 to float32");
  const Sizes sizes = s.sizes(given->real);
  const SizeExpr& bins = sizes[sizes.size() - 2];
  const SizeExpr& count = sizes.back();
  if (!bins.is_number() || !count.is_number())
    return s.refuse("of frames whose number is not fixed");
  const bool is_half = node.bool_or("onesided", bins.number() != node.int_or("n_fft", 0));
  const std::optional<Frames> frames = frames_of(s, node, is_half);
  if (!frames) return;
  const int64_t whole = frames->size + frames->hop * (count.number() - 1);
  const bool is_centered = node.bool_or("center", true);
  const int64_t start = is_centered ? frames->size / 2 : 0;
  const int64_t size = node.int_or("length", whole - (is_centered ? 2 : 1) * start);
  if (size < 1 || start + size > whole) return s.refuse("of another length than its frames have");
  const std::optional<Tensor> envelope = inverse_envelope(*frames, count.number(), start, size);
  if (!envelope) return s.refuse("with windows that leave gaps");

  const auto batched = [&](int part) { return sizes.size() == 2 ? s.unsqueeze(part, 0) : part; };
  const bool is_real = given->imaginary < 0;
  const int parts =
      is_real ? batched(given->real) : s.cat({batched(given->real), batched(given->imaginary)}, 1);
  const int weights =
      s.add_constant(node.name() + "_kernels", kernels_of(*frames, Way::kFrom, !is_real));
  const SizeExpr batch = s.sizes(parts)[0];
  Attributes steps = steps_of(frames->hop);
  steps["output_padding"] = std::vector<int64_t>{0};
  const int sum = s.op("conv_transpose", {parts, weights, -1}, {batch, 1, whole}, DType::kFloat32,
                       std::move(steps));
  const int inverse = s.add_constant(node.name() + "_envelope", *envelope);
  s.give(s.mul(s.slice(sum, -1, start, size), inverse));
}

}  // namespace octet
