// Chooses the next token from a model's scores, as octet_runtime.generate does: a seed gives the
// same tokens in both. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace octet {

// NumPy's default_rng(seed): PCG64 with its SeedSequence. Without a seed, one from the system.
class Random {
 public:
  explicit Random(std::optional<uint64_t> seed);
  double next();  // in [0, 1)

 private:
  __extension__ using Wide = unsigned __int128;
  Wide state_ = 0, increment_ = 0;
};

struct Sampling {
  double temperature = 0;  // 0: the best token
  size_t top_k = 0;        // choose among this many best tokens; 0: all
  double top_p = 1;        // choose among the fewest best tokens that reach this probability
};

// Throws Error("generate", "model", ...) for scores that are NaN.
int64_t choose(std::span<const float> scores, const Sampling& sampling, Random& random);

}  // namespace octet
