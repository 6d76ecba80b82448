// Regular expressions of tokenizers. Free of torch.
//
//   Regex regex(R"( ?\p{L}+|\s+(?!\S))");
//
// The part of Oniguruma's syntax that pre-tokenizers use: alternatives, groups (?:...) and
// (?i:...), lookahead (?=...) and (?!...), classes with \p{L}, \s, \d, and the quantifiers
// ? * + {m,n}, also possessive ones on a class. The constructor throws Error for all else, and
// names it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace octet::tokenizer {

class Regex {
 public:
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The end of the match that starts at `at`, if there is one.
  std::optional<size_t> match(std::u32string_view text, size_t at) const;

 private:
  struct Item;
  struct Parser;
  struct Matcher;
  std::unique_ptr<Item> root_;
};

}  // namespace octet::tokenizer
