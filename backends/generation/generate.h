// Generates text with a lowered language model, token by token. Free of torch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/generation/decoder.h"
#include "backends/generation/sampler.h"
#include "backends/tokenizer/tokenizer.h"

namespace octet {

struct Token {
  int64_t id = 0;
  // Complete characters that it adds to the text. A character of several tokens comes with the
  // last one.
  std::string text;
};

struct GenerateOptions {
  size_t max_tokens = 128;
  Sampling sampling;
  std::optional<uint64_t> seed = std::nullopt;
  // Texts or ids of tokens that end the text; empty: the special tokens of the tokenizer.
  std::vector<std::string> stop = {};
};

// Passes each token that the model appends to the prompt to `take`, which returns whether to
// continue. Throws Error("generate", ...) for an empty prompt, tokens outside of the vocabulary,
// and a prompt that the cache cannot hold.
void generate(Decoder& decoder, const tokenizer::Tokenizer& words,
              const std::vector<int64_t>& prompt, const GenerateOptions& options,
              const std::function<bool(const Token&)>& take);

}  // namespace octet
