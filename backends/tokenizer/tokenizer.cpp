#include "backends/tokenizer/tokenizer.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backends/tokenizer/unicode.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"

namespace octet::tokenizer {
namespace {

// How many bytes of white space `text` starts or ends with.
size_t space_at_start(std::string_view text) {
  size_t size = 0;
  for (size_t next; (next = character_size(text.substr(size))) != 0; size += next)
    if (!is_space(decode_utf8(text.substr(size, next))[0])) break;
  return size;
}

size_t space_at_end(std::string_view text) {
  size_t size = 0;
  const std::u32string points = decode_utf8(text);
  for (size_t i = points.size(); i > 0 && is_space(points[i - 1]); --i)
    size += encode_utf8(points.substr(i - 1, 1)).size();
  return size;
}

}  // namespace

void Tokenizer::add(const AddedToken& token) {
  is_special_[token.id] = token.is_special;
  if (token.text.empty()) return;
  model.add(token.text, token.id);
  AddedToken found = token;
  if (token.is_normalized) found.text = normalize(token.text);
  std::vector<AddedToken>& same = added_[found.text[0]];
  same.push_back(std::move(found));
  std::stable_sort(same.begin(), same.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
}

std::string Tokenizer::normalize(std::string_view text) const {
  std::string result(text);
  for (const Normalizer& step : normalizers) result = step(result);
  return result;
}

const AddedToken* Tokenizer::find_added(std::string_view text, bool is_normalized) const {
  const auto same = added_.find(text[0]);
  if (same == added_.end()) return nullptr;
  const auto fits = [&](const AddedToken& token) {
    return token.is_normalized == is_normalized && text.starts_with(token.text);
  };
  const auto found = std::find_if(same->second.begin(), same->second.end(), fits);
  return found == same->second.end() ? nullptr : &*found;
}

void Tokenizer::encode_part(const std::string& text, bool is_start, bool is_normalized,
                            std::vector<Id>& to) const {
  const auto encode_rest = [&](std::string_view rest, bool starts) {
    if (rest.empty()) return;
    if (!is_normalized) return encode_part(normalize(rest), starts, true, to);
    Words words = {std::string(rest)};
    for (const PreTokenizer& step : pre_tokenizers) words = step(words, starts);
    for (const std::string& word : words) model.encode(word, to);
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const AddedToken* token = find_added(rest, is_normalized);
    if (token == nullptr) {
      ++at;
      continue;
    }
    const std::string_view before = std::string_view(text).substr(begin, at - begin);
    const size_t left = token->takes_left_space ? space_at_end(before) : 0;
    encode_rest(before.substr(0, before.size() - left), is_start && begin == 0);
    to.push_back(token->id);
    at += token->text.size();
    if (token->takes_right_space) at += space_at_start(std::string_view(text).substr(at));
    begin = at;
  }
  encode_rest(std::string_view(text).substr(begin), is_start && begin == 0);
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool adds_special) const {
  decode_utf8(text);  // throws if it is not valid
  std::vector<Id> ids;
  encode_part(std::string(text), true, false, ids);
  std::vector<int64_t> result;
  if (adds_special) result = prefix;
  result.insert(result.end(), ids.begin(), ids.end());
  if (adds_special) result.insert(result.end(), suffix.begin(), suffix.end());
  return result;
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids) const {
  Words tokens;
  for (const int64_t id : ids) {
    const bool is_id = id >= 0 && id < static_cast<int64_t>(model.size());
    const std::string* token = is_id ? model.token(static_cast<Id>(id)) : nullptr;
    if (token != nullptr && !is_special(id)) tokens.push_back(*token);
  }
  for (const Decoder& step : decoders) tokens = step(tokens);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

std::optional<int64_t> Tokenizer::id_of(const std::string& token) const {
  return model.id_of(token);
}

std::string Tokenizer::token(int64_t id) const {
  const bool is_id = id >= 0 && id < static_cast<int64_t>(model.size());
  const std::string* token = is_id ? model.token(static_cast<Id>(id)) : nullptr;
  return token == nullptr ? std::string() : *token;
}

std::vector<int64_t> Tokenizer::special_ids() const {
  std::vector<int64_t> ids;
  for (const auto& [id, is_special] : is_special_)
    if (is_special) ids.push_back(id);
  return ids;
}

Tokenizer read_tokenizer(const std::filesystem::path& path) {
  const MappedFile file = map_file(path, FileAccess::kReadOnly);
  switch (file.fault) {
    case MappedFile::Fault::kNone: break;
    case MappedFile::Fault::kEmpty: throw Error("tokenizer", path.string(), "is empty");
    case MappedFile::Fault::kNoFile: throw Error("tokenizer", path.string(), "is not a file");
    case MappedFile::Fault::kNotOpened:
    case MappedFile::Fault::kNotMapped:
      throw Error("tokenizer", path.string(),
                  fmt::format("cannot be read: {}", std::strerror(file.code)));
  }
  const std::string_view bytes(reinterpret_cast<const char*>(file.data), file.size);
  return bytes.starts_with("GGUF") ? read_tokenizer_gguf(path, bytes)
                                   : read_tokenizer_json(path, bytes);
}

}  // namespace octet::tokenizer
