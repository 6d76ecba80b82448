// The tokenizer of a language model: text to token ids and back, as the package tokenizers does it.
// Free of torch.
//
//   const Tokenizer tokenizer = read_tokenizer("tokenizer.json");   // or a GGUF file
//   std::vector<int64_t> ids = tokenizer.encode("Hello");
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tokenizer/bpe.h"
#include "backends/tokenizer/steps.h"

namespace octet::tokenizer {

// A token that is found in a text before the text is split.
struct AddedToken {
  std::string text;
  Id id = 0;
  bool is_special = false;  // left out of decoded text; ends generation
  bool takes_left_space = false, takes_right_space = false;
  bool is_normalized = false;  // found in the normalized text
};

class Tokenizer {
 public:
  // adds_special: with the tokens that begin or end a text. Throws Error("tokenizer", "text", ...)
  // for invalid UTF-8, and for a character that the vocabulary cannot spell.
  std::vector<int64_t> encode(std::string_view text, bool adds_special = true) const;
  // The text without special tokens. What is not valid UTF-8 becomes U+FFFD.
  std::string decode(const std::vector<int64_t>& ids) const;
  std::optional<int64_t> id_of(const std::string& token) const;
  // The text of a token; "" for an id without one.
  std::string token(int64_t id) const;
  bool is_special(int64_t id) const { return is_special_.contains(id) && is_special_.at(id); }
  std::vector<int64_t> special_ids() const;
  // One more than the largest id.
  size_t size() const { return model.size(); }

  // Filled by the readers.
  std::string file;
  std::vector<Normalizer> normalizers = {};
  std::vector<PreTokenizer> pre_tokenizers = {};
  std::vector<Decoder> decoders = {};
  Bpe model = {};
  std::vector<int64_t> prefix = {}, suffix = {};  // special tokens around a text
  // The Jinja template of conversations, and what it calls bos_token and eos_token.
  std::string chat_template = {}, begin_token = {}, end_token = {};

  void add(const AddedToken& token);

 private:
  std::string normalize(std::string_view text) const;
  // Splits at the added tokens that are found in texts of this kind, and encodes the rest.
  void encode_part(const std::string& text, bool is_start, bool is_normalized,
                   std::vector<Id>& to) const;
  const AddedToken* find_added(std::string_view text, bool is_normalized) const;

  std::map<char, std::vector<AddedToken>> added_;  // by the first byte, the longest first
  std::map<int64_t, bool> is_special_;             // whether it is special
};

// Reads a tokenizer.json (byte pair encoding), or the tokenizer of a GGUF file (models gpt2 and
// llama). Throws Error("tokenizer", path, ...) that names what it does not read.
Tokenizer read_tokenizer(const std::filesystem::path& path);
Tokenizer read_tokenizer_json(const std::filesystem::path& path, std::string_view bytes);
Tokenizer read_tokenizer_gguf(const std::filesystem::path& path, std::string_view bytes);

}  // namespace octet::tokenizer
