#include "backends/generation/generate.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace octet {
namespace {

std::set<int64_t> ends_of(const std::vector<std::string>& stop, const tokenizer::Tokenizer& words) {
  const std::vector<int64_t> special = words.special_ids();
  if (stop.empty()) return {special.begin(), special.end()};
  std::set<int64_t> ends;
  for (const std::string& token : stop) {
    std::optional<int64_t> id = words.id_of(token);
    int64_t number = 0;
    const char* const end = token.data() + token.size();
    if (!id && std::from_chars(token.data(), end, number).ptr == end && !token.empty()) id = number;
    if (!id)
      throw Error(
          "generate", "stop",
          fmt::format("'{}' is not a token of the tokenizer; give its id", printable_line(token)));
    ends.insert(*id);
  }
  return ends;
}

// Decodes tokens one after another into complete characters.
class Text {
 public:
  Text(const tokenizer::Tokenizer& words, const std::vector<int64_t>& prompt) : words_(words) {
    known_ = std::min<size_t>(prompt.size(), 4);
    ids_.assign(prompt.end() - static_cast<long>(known_), prompt.end());
  }

  std::string add(int64_t id) {
    ids_.push_back(id);
    const std::vector<int64_t> before(ids_.begin(), ids_.begin() + static_cast<long>(known_));
    const size_t size = words_.decode(before).size();
    const std::string now = words_.decode(ids_);
    if (now.ends_with("\uFFFD")) return {};  // a part of a character
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<long>(known_));
    known_ = ids_.size();
    return now.size() > size ? now.substr(size) : std::string();
  }

 private:
  const tokenizer::Tokenizer& words_;
  // The tokens that are not given out yet, after some that are: a tokenizer may decode a token
  // differently at the beginning of a text.
  std::vector<int64_t> ids_;
  size_t known_ = 0;  // how many of these are given out
};

}  // namespace

void generate(Decoder& decoder, const tokenizer::Tokenizer& words,
              const std::vector<int64_t>& prompt, const GenerateOptions& options,
              const std::function<bool(const Token&)>& take) {
  if (prompt.empty()) throw Error("generate", "prompt", "is empty, want at least one token");
  decoder.check(prompt, &words);
  const std::set<int64_t> ends = ends_of(options.stop, words);
  Random random(options.seed);
  Text text(words, prompt);
  std::vector<int64_t> tokens = prompt;
  size_t start = 0;
  for (size_t i = 0; i < options.max_tokens; ++i) {
    const std::vector<float>& scores = decoder.scores(tokens, start);
    start += tokens.size();
    tokens = {choose(scores, options.sampling, random)};
    if (ends.contains(tokens[0])) return;
    if (!take({tokens[0], text.add(tokens[0])})) return;
  }
}

}  // namespace octet
