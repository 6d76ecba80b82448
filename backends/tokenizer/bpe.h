// Byte pair encoding: merges the characters of a word, most frequent pairs first. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace octet::tokenizer {

using Id = int32_t;

class Bpe {
 public:
  Bpe() = default;
  Bpe(Bpe&&) = default;
  Bpe& operator=(Bpe&&) = default;

  // Tokens by their text. Ids may have holes.
  void add(const std::string& token, Id id);
  // The next pair by rank; false if a part or the whole is not a token.
  bool add_merge(const std::string& first, const std::string& second);
  // All pairs that make a token with is_merged, by its score, as SentencePiece merges.
  void add_merges_by_score(const std::vector<float>& scores, const std::vector<bool>& is_merged);

  void encode(const std::string& word, std::vector<Id>& to) const;
  std::optional<Id> id_of(const std::string& token) const;
  // Null for an id without a token.
  const std::string* token(Id id) const;
  size_t size() const { return tokens_.size(); }

  std::optional<Id> unknown;   // for a character that is not a token
  bool fuses_unknown = false;  // one for several in a row
  bool has_bytes = false;      // tokens <0x00> to <0xFF> spell a character that is not a token
  bool tries_whole = false;    // a word that is a token needs no merges

 private:
  struct Merge {
    uint32_t rank;
    Id id;
  };
  const Merge* merge_of(Id first, Id second) const;
  std::vector<Id> characters(const std::string& word) const;

  std::unordered_map<std::string, Id> ids_;
  std::vector<const std::string*> tokens_;
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace octet::tokenizer
