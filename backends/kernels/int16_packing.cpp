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
  // Sums of several parts are added in double.
  const double most = magnitudes * -INT16_MIN,
               most_start = most <= INT32_MAX ? INT32_MAX - most : INT32_MAX;
  const size_t at = static_cast<size_t>(output);
  p.constants.add(-sum * static_cast<double>(p.t.x.zero_point), p.t.scale[at], p.t.bias[at],
                  most_start, p.t.y);
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

// The upper half of a word is 0, so that it meets the sign of x.
void pack_depthwise(PackedInt16Product& p) {
  for (int64_t c = 0; c < p.t.channels; ++c) add_constants(p, c);
  for (Digit digit : p.digits())
    for (int64_t tap = 0; tap < p.taps(); ++tap)
      for (int64_t c = 0; c < p.t.channels; ++c)
        p.words.push_back(pair_of(digit_of(p.weights_of(c)[tap], digit), 0));
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
  p.is_split = std::any_of(terms.weights.begin(), terms.weights.end(),
                           [](int16_t weight) { return magnitude(weight) >= kLeastSplit; });
  p.is_depthwise = is_depthwise(p);
  const bool has_odd_depth = !p.is_depthwise && p.depth() % 2 != 0;
  p.is_widened = terms.x.dtype != DType::kInt16 || has_odd_depth;
  p.stride = p.is_widened ? (terms.channels + 2) / 2 * 2 : terms.channels;
  p.padding.assign(static_cast<size_t>(p.stride) + 2, static_cast<int16_t>(terms.x.zero_point));
  p.is_depthwise ? pack_depthwise(p) : pack_panels(p);
  p.t.weights = {};
  return made;
}

}  // namespace octet
