#include "backends/kernels/int16_packing.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/kernels/isa.h"

namespace octet {

using namespace int16_product;

namespace {

constexpr int64_t kMostMagnitude = 65535;  // of the weights of a part
constexpr int32_t kLeastSplit = 256;       // if a weight has this magnitude, all have two digits

// Vectors in the registers of an instruction set: with AVX-512 there are 32.
int64_t most_vectors(int64_t lanes) { return lanes == 16 ? 4 : 2; }

int32_t magnitude(int16_t weight) { return std::abs(int32_t{weight}); }

int16_t digit_of(int16_t weight, Digit digit) {
  const int32_t high = (weight + kHighFactor / 2) >> 8;
  return static_cast<int16_t>(digit == Digit::kWhole  ? weight
                              : digit == Digit::kHigh ? high
                                                      : weight - high * kHighFactor);
}

int32_t pair_of(int16_t first, int16_t second) {
  return static_cast<int32_t>(static_cast<uint16_t>(first) |
                              static_cast<uint32_t>(static_cast<uint16_t>(second)) << 16);
}

// Appends the constants of an output; -1: zeros.
void add_constants(PackedInt16Product& p, int64_t output) {
  if (output < 0) return p.constants.add(0, 0, 0, 0, p.t.y);
  const int16_t* const weights = p.weights_of(output);
  double sum = 0, magnitudes = 0;
  for (int64_t k = 0; k < p.taps() * p.depth(); ++k) {
    sum += weights[k];
    magnitudes += magnitude(weights[k]);
  }
  const size_t at = static_cast<size_t>(output);
  p.constants.add(-sum * static_cast<double>(p.t.x.zero_point), p.t.scale[at], p.t.bias[at],
                  magnitudes * -INT16_MIN, p.t.y);
}

// Appends the words and spans of a digit for window positions [first, last), as a new part.
void pack_positions(PackedInt16Product& p, Panel& panel, int64_t first, int64_t last, Digit digit) {
  const int64_t depth = p.depth(), width = panel.vectors * p.lanes;
  std::vector<int64_t> magnitudes(static_cast<size_t>(panel.count));  // of the current part
  if (!panel.spans.empty()) panel.spans.back().is_last = true;
  for (int64_t tap = first; tap < last; ++tap)
    for (int64_t pair = 0; 2 * pair < depth; ++pair) {
      bool fits = true;
      for (int64_t i = 0; i < width; ++i) {
        int16_t values[2] = {0, 0};
        for (int64_t k = 2 * pair; k < std::min(2 * pair + 2, depth) && i < panel.count; ++k)
          values[k % 2] = digit_of(p.weights_of(panel.first + i)[tap * depth + k], digit);
        p.words.push_back(pair_of(values[0], values[1]));
        if (i >= panel.count) continue;
        int64_t& sum = magnitudes[static_cast<size_t>(i)];
        sum += magnitude(values[0]) + magnitude(values[1]);
        fits = fits && sum <= kMostMagnitude;
      }
      if (!fits) {
        panel.spans.back().is_last = true;
        const int32_t* words = p.words.data() + p.words.size() - width;
        for (size_t i = 0; i < magnitudes.size(); ++i)
          magnitudes[i] = magnitude(static_cast<int16_t>(words[i])) +
                          magnitude(static_cast<int16_t>(words[i] >> 16));
      }
      if (panel.spans.empty() || panel.spans.back().is_last || panel.spans.back().tap != tap)
        panel.spans.push_back(
            {static_cast<int32_t>(tap), static_cast<int32_t>(pair), 0, digit, false});
      ++panel.spans.back().count;
    }
}

// Appends the words, constants and spans of a panel.
void pack_panel(PackedInt16Product& p, Panel& panel) {
  const int64_t width = panel.vectors * p.lanes;
  panel.words = p.words.size();
  panel.constants = p.constants.shift.size();
  for (int64_t i = 0; i < width; ++i) add_constants(p, i < panel.count ? panel.first + i : -1);
  for (int64_t tap = 0; tap < p.taps(); tap += kMostTaps)
    for (Digit digit : p.digits())
      pack_positions(p, panel, tap, std::min(tap + kMostTaps, p.taps()), digit);
  panel.spans.back().is_last = true;
  panel.parts = std::count_if(panel.spans.begin(), panel.spans.end(),
                              [](const Span& span) { return span.is_last; });
}

void pack_panels(PackedInt16Product& p) {
  const int64_t outputs = p.t.outputs / p.t.groups, most = most_vectors(p.lanes);
  for (int64_t group = 0; group < p.t.groups; ++group)
    for (int64_t at = 0; at < outputs;) {
      Panel panel = {group, group * outputs + at, 0, 0, 0, 0, {}};
      panel.vectors = std::min(most, (outputs - at + p.lanes - 1) / p.lanes);
      panel.count = std::min(panel.vectors * p.lanes, outputs - at);
      at += panel.count;
      pack_panel(p, panel);
      p.panels.push_back(std::move(panel));
    }
}

// Appends the words of a block for a digit.
void pack_block(PackedInt16Product& p, const Block& block, Digit digit) {
  for (int64_t tap = 0; tap < p.taps(); tap += 2)
    for (int64_t i = 0; i < 2 * p.lanes; ++i) {
      const int64_t channel = i % p.lanes / 4 * 8 + i / p.lanes * 4 + i % 4;
      int16_t values[2] = {0, 0};
      for (int64_t k = tap; k < std::min(tap + 2, p.taps()) && channel < block.count; ++k)
        values[k - tap] = digit_of(p.weights_of(block.first + channel)[k], digit);
      p.words.push_back(pair_of(values[0], values[1]));
    }
}

void pack_depthwise(PackedInt16Product& p) {
  const int64_t width = 2 * p.lanes, channels = p.t.channels;
  for (int64_t at = 0; at < channels; at += width) {
    const Block block = {std::clamp<int64_t>(channels - width, 0, at), std::min(width, channels)};
    p.blocks.push_back(block);
    for (int64_t i = 0; i < width; ++i) add_constants(p, i < block.count ? block.first + i : -1);
    for (Digit digit : p.digits()) pack_block(p, block, digit);
  }
}

void find_offsets(PackedInt16Product& p) {
  const Int16ProductTerms& t = p.t;
  for (int64_t h = 0; h < t.kernel[0]; ++h)
    for (int64_t w = 0; w < t.kernel[1]; ++w)
      p.offsets.push_back((h * t.dilation[0] * t.width + w * t.dilation[1]) * p.stride);
  for (int i = 0; i < 2; ++i) p.reach[i] = (t.kernel[i] - 1) * t.dilation[i];
}

// Makes each row of a window one window position, whose channels are those of all its pixels. Only
// for an odd number of channels: with an even one, pairs need no copy.
void merge_columns(PackedInt16Product& p) {
  Int16ProductTerms& t = p.t;
  if (t.groups != 1 || t.channels % 2 == 0 || t.kernel[1] == 1 || t.dilation[1] != 1) return;
  const int64_t width =
      std::max(t.padding[1] + t.width, (t.out_width - 1) * t.stride[1] + t.kernel[1]);
  if (width > 2 * t.width + t.kernel[1]) return;  // mostly border, which may not fit into memory
  p.before = t.padding[1];
  p.after = width - p.before - t.width;
  p.stride = t.channels;
  t.width = width;
  t.channels *= t.kernel[1];
  t.kernel[1] = 1;
  t.padding[1] = 0;
}

// Its sums are one part: no digit is 256 or more.
bool is_depthwise(const PackedInt16Product& p) {
  static_assert(kMostTaps * (kLeastSplit - 1) <= kMostMagnitude);
  const Int16ProductTerms& t = p.t;
  return t.groups == t.channels && t.groups == t.outputs && t.channels >= p.lanes &&
         p.taps() <= kMostTaps;
}

}  // namespace

std::shared_ptr<const PackedInt16Product> pack_int16_product(const Int16ProductTerms& terms) {
  const auto made = std::make_shared<PackedInt16Product>();
  PackedInt16Product& p = *made;
  p.t = terms;
  p.lanes = vector_floats();
  p.channels = terms.channels;
  p.is_split = std::any_of(terms.weights.begin(), terms.weights.end(),
                           [](int16_t weight) { return magnitude(weight) >= kLeastSplit; });
  p.is_depthwise = is_depthwise(p);
  // The loops read pairs of channels, or two vectors of them.
  p.stride = p.is_depthwise       ? std::max(terms.channels, 2 * p.lanes)
             : p.depth() % 2 == 0 ? terms.channels
                                  : (terms.channels + 2) / 2 * 2;
  merge_columns(p);
  p.is_widened = terms.x.dtype != DType::kInt16 || p.stride != p.channels ||
                 p.t.width != terms.width || (!p.is_depthwise && p.depth() % 2 != 0);
  p.padding.assign(static_cast<size_t>(std::max(p.stride, p.t.channels)) + 2,
                   static_cast<int16_t>(terms.x.zero_point));
  find_offsets(p);
  p.is_depthwise ? pack_depthwise(p) : pack_panels(p);
  p.t.weights = {};
  return made;
}

}  // namespace octet
