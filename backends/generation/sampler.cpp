// Samples a token: divides scores by the temperature, keeps the top_k best, then the fewest of
// those whose probabilities add up to top_p (nucleus sampling: Holtzman et al., "The Curious Case
// of Neural Text Degeneration", 2020), and draws one of them. Example: probabilities 0.5, 0.3,
// 0.15, 0.05 and top_p 0.9 keep the first three, which are drawn with 0.53, 0.32 and 0.16.
#include "backends/generation/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "core/base/error.h"

namespace octet {
namespace {

// NumPy's SeedSequence(seed).generate_state(4, uint64).
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, 4> entropy = {static_cast<uint32_t>(seed),
                                             static_cast<uint32_t>(seed >> 32), 0, 0};
    uint32_t constant = 0x43b0d7e5;
    const auto hash = [&](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ value >> 16;
    };
    const auto mix = [](uint32_t a, uint32_t b) {
      const uint32_t value = a * 0xca01f9ddu - b * 0x4973f715u;
      return value ^ value >> 16;
    };
    for (size_t i = 0; i < 4; ++i) pool_[i] = hash(entropy[i]);
    for (size_t from = 0; from < 4; ++from)
      for (size_t to = 0; to < 4; ++to)
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint64_t, 4> state{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < 8; ++i) {
      uint32_t value = pool_[i % 4] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      state[i / 2] |= uint64_t{value} << 32 * (i % 2);
    }
    return state;
  }

 private:
  std::array<uint32_t, 4> pool_{};
};

uint64_t system_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Random::Random(std::optional<uint64_t> seed) {
  const std::array<uint64_t, 4> words = SeedSequence(seed ? *seed : system_seed()).state();
  increment_ = (static_cast<Wide>(words[2]) << 64 | words[3]) << 1 | 1;
  next();
  state_ += static_cast<Wide>(words[0]) << 64 | words[1];
  next();
}

double Random::next() {
  constexpr Wide kFactor = static_cast<Wide>(0x2360ED051FC65DA4) << 64 | 0x4385DF649FCCF645;
  state_ = state_ * kFactor + increment_;
  const uint64_t mixed = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const unsigned turn = static_cast<unsigned>(state_ >> 122);
  const uint64_t bits = mixed >> turn | mixed << (-turn & 63);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int64_t choose(std::span<const float> scores, const Sampling& sampling, Random& random) {
  if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); }))
    throw Error("generate", "model", "its scores are NaN; compare the program with the float one");
  if (sampling.temperature == 0)
    return std::max_element(scores.begin(), scores.end()) - scores.begin();
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (sampling.top_k != 0) order.resize(std::min(order.size(), sampling.top_k));
  std::vector<double> sums;  // of the chances up to each token
  const double best = static_cast<double>(scores[order[0]]) / sampling.temperature;
  double total = 0;
  for (const size_t i : order)
    sums.push_back(total += std::exp(static_cast<double>(scores[i]) / sampling.temperature - best));
  if (sampling.top_p < 1) {
    const auto enough = std::lower_bound(sums.begin(), sums.end(), sampling.top_p * total);
    sums.resize(std::min(static_cast<size_t>(enough - sums.begin()) + 1, sums.size()));
    total = sums.back();
  }
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), random.next() * total);
  return static_cast<int64_t>(
      order[std::min(static_cast<size_t>(chosen - sums.begin()), sums.size() - 1)]);
}

}  // namespace octet
