// Runs a lowered language model: token ids to scores. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/runtime/session.h"
#include "backends/tokenizer/tokenizer.h"

namespace octet {

// A program whose inputs are token ids [1, n] and, if it keeps a cache, their positions [n], and
// whose first output has scores [1, n, words], or with SessionOptions::logits_to_keep fewer.
class Decoder {
 public:
  // Throws Error("generate", "model", ...) for another program. The session must outlive this.
  explicit Decoder(Session& session);

  // Throws Error for tokens outside of the vocabulary, and a tokenizer with a larger one.
  void check(std::span<const int64_t> tokens, const tokenizer::Tokenizer* words) const;

  // The scores of the token after each of `tokens`, which are at the positions start, start + 1,
  // ... after those of earlier calls. Valid until the next call.
  const std::vector<std::vector<float>>& all_scores(std::span<const int64_t> tokens, size_t start);
  // The scores after the last of `tokens`.
  const std::vector<float>& scores(std::span<const int64_t> tokens, size_t start);

  // The size of the vocabulary; 0: only a run tells.
  size_t words() const { return words_; }

 private:
  Tensor run(std::span<const int64_t> tokens, size_t start);
  // count: how many positions ran.
  void read(const Tensor& scores, size_t count, bool is_last_only);
  void compute(std::span<const int64_t> tokens, size_t start, bool is_last_only);

  Session& session_;
  size_t ids_ = 0;                        // the input
  std::optional<size_t> positions_ = {};  // the input
  size_t most_ = 0, words_ = 0;
  std::vector<int64_t> past_ = {};  // without a cache, all tokens so far
  std::vector<std::vector<float>> scores_ = {};
};

}  // namespace octet
