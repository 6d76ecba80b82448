// Fills bins greedily: each begins with the largest remaining step and takes the largest that fit.
#include "backends/onednn/bytes/bins.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace octet::onednn {
namespace {

constexpr int kMostLanes = 16;
// Cost of a step and of a bin, relative to two steps of kWords (Zen 4, AVX2 tiles).
constexpr double kStepCost = 0.58, kBinCost = 0.24;

constexpr int kCapacity = 32767;

// Per pair of each channel: the largest sum of products, then minus the smallest one.
struct BinLoad {
  std::array<uint16_t, 4 * kMostLanes> of{};
};

struct BinStep {
  int32_t x;
  std::array<int8_t, 4 * kMostLanes> weights;
  BinLoad load;
  int most;
};

// The largest x0 * a + x1 * b for a, b >= 0.
int greatest_sum(int a, int b, ByteBound bound) {
  return bound.byte * std::max(a, b) +
         std::min(bound.pair - bound.byte, bound.byte) * std::min(a, b);
}

BinStep make_step(int32_t x, const std::array<int8_t, 4 * kMostLanes>& weights, int lanes,
                  ByteBound bound) {
  BinStep step{x, weights, {}, 0};
  for (size_t pair = 0; pair < static_cast<size_t>(2 * lanes); ++pair) {
    const int a = weights[2 * pair], b = weights[2 * pair + 1];
    step.load.of[pair] = static_cast<uint16_t>(greatest_sum(std::max(a, 0), std::max(b, 0), bound));
    step.load.of[2 * kMostLanes + pair] =
        static_cast<uint16_t>(greatest_sum(std::max(-a, 0), std::max(-b, 0), bound));
  }
  step.most = *std::max_element(step.load.of.begin(), step.load.of.end());
  return step;
}

// Requires that each load is within capacity, so that the sum of two fits 16 bits.
bool fits(const BinLoad& a, const BinLoad& b) {
  uint16_t over = 0;
  for (size_t i = 0; i < a.of.size(); ++i)
    over = static_cast<uint16_t>(over | static_cast<uint16_t>(a.of[i] + b.of[i]));
  return over <= kCapacity;
}

void add(BinLoad& a, const BinLoad& b) {
  for (size_t i = 0; i < a.of.size(); ++i) a.of[i] = static_cast<uint16_t>(a.of[i] + b.of[i]);
}

// Splits steps so that each is within capacity.
std::vector<BinStep> split(std::span<const int8_t> weights, int lanes, ByteBound bound) {
  const int capacity = bound.pair <= 255 ? 256 : kCapacity / bound.byte;  // of weights of one sign
  const size_t size = static_cast<size_t>(lanes) * 4;
  std::vector<BinStep> steps;
  for (size_t s = 0; s < weights.size() / size; ++s) {
    std::array<int8_t, 4 * kMostLanes> some{}, rest{};
    std::copy_n(weights.begin() + static_cast<std::ptrdiff_t>(s * size), size, some.begin());
    bool is_split = false;
    for (size_t i = 0; i < size; i += 2) {
      const int first = some[i], second = some[i + 1];
      const bool is_one_sign = (first > 0) == (second > 0);
      const int too_much = is_one_sign ? std::abs(first + second) - capacity : 0;
      if (too_much <= 0) continue;
      const int moved = std::min(too_much, std::abs(first));
      rest[i] = static_cast<int8_t>(first > 0 ? moved : -moved);
      some[i] = static_cast<int8_t>(first - rest[i]);
      is_split = true;
    }
    steps.push_back(make_step(static_cast<int32_t>(s), some, lanes, bound));
    if (is_split) steps.push_back(make_step(static_cast<int32_t>(s), rest, lanes, bound));
  }
  return steps;
}

}  // namespace

BinnedBlock make_bins(std::span<const int8_t> weights, int lanes, ByteBound bound) {
  constexpr size_t kProbes = 24;  // partners that are tried for each place in a bin
  std::vector<BinStep> steps = split(weights, lanes, bound);
  std::stable_sort(steps.begin(), steps.end(),
                   [](const BinStep& a, const BinStep& b) { return a.most > b.most; });
  std::vector<size_t> left(steps.size());
  std::iota(left.begin(), left.end(), size_t{0});
  std::vector<std::vector<size_t>> bins[kMostBin];  // with kMostBin steps, with one less, ...
  std::vector<char> is_taken(steps.size(), 0);
  for (size_t taken = 0; taken < steps.size();) {
    std::erase_if(left, [&](size_t i) { return is_taken[i] != 0; });
    // Fill half of the remaining steps at a time, so that erasing is rare.
    const size_t count = left.size();
    for (size_t seed = 0; seed < (count + 1) / 2; ++seed) {
      if (is_taken[left[seed]] != 0) continue;
      std::vector<size_t> bin = {left[seed]};
      BinLoad load = steps[left[seed]].load;
      is_taken[left[seed]] = 1;
      while (bin.size() < kMostBin) {
        // Tries candidates from large to small and takes the first that fits.
        const size_t stride = std::max<size_t>((count - seed) / kProbes, 1);
        size_t found = count;
        for (size_t i = seed + 1 + bin.size() % stride; i < count && found == count; i += stride)
          for (size_t j = i; j < std::min(i + 2, count) && found == count; ++j)
            if (is_taken[left[j]] == 0 && fits(load, steps[left[j]].load)) found = j;
        if (found == count) break;
        add(load, steps[left[found]].load);
        is_taken[left[found]] = 1;
        bin.push_back(left[found]);
      }
      taken += bin.size();
      bins[kMostBin - bin.size()].push_back(std::move(bin));
    }
  }
  BinnedBlock block;
  for (int size = 0; size < kMostBin; ++size) {
    block.bins[size] = static_cast<int32_t>(bins[size].size());
    for (const std::vector<size_t>& bin : bins[size])
      for (size_t i : bin) {
        block.order.push_back(steps[i].x);
        block.weights.insert(block.weights.end(), steps[i].weights.begin(),
                             steps[i].weights.begin() + lanes * 4);
      }
  }
  return block;
}

double cost_of(const BinnedBlock& block, int64_t steps) {
  const double bins = std::accumulate(std::begin(block.bins), std::end(block.bins), 0);
  return (kStepCost * static_cast<double>(block.order.size()) + kBinCost * bins) /
         static_cast<double>(steps);
}

}  // namespace octet::onednn
