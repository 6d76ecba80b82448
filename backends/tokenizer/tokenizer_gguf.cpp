// Makes the tokenizer of a GGUF file from its metadata.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/tokenizer/tokenizer.h"
#include "backends/tokenizer/unicode.h"
#include "core/base/error.h"
#include "core/base/printable.h"

namespace octet::tokenizer {
namespace {

// ---- the metadata of a GGUF file, without its tensors

// A number, a text, or a list of them; a bool is a number.
struct GgufValue {
  std::vector<double> numbers = {};
  std::vector<std::string> texts = {};
  bool is_list = false;
};

// The types of values, in the order of their numbers.
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kList,
  kU64,
  kI64,
  kF64  // clang-format off
};  // clang-format on

// Throws Error("tokenizer", path, ...) for a file that is cut off or damaged; allocates nothing of
// a size that only the file claims.
class GgufReader {
 public:
  GgufReader(const std::filesystem::path& path, std::string_view bytes)
      : path_(path), rest_(bytes) {}

  // Only the values whose names start with `prefix`.
  std::map<std::string, GgufValue> read(std::string_view prefix) {
    take(4);  // "GGUF"
    const uint32_t version = number<uint32_t>();
    if (version != 2 && version != 3)
      fail(fmt::format("has version {} of GGUF, want 2 or 3; convert the model again", version));
    number<uint64_t>();  // tensors
    std::map<std::string, GgufValue> values;
    for (uint64_t count = number<uint64_t>(); count > 0; --count) {
      const std::string name = text();
      const GgufType type = static_cast<GgufType>(number<uint32_t>());
      GgufValue value = read_value(type);
      if (name.starts_with(prefix)) values[name] = std::move(value);
    }
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", path_.string(), what);
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) fail("is cut off or damaged; download it again");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<uint64_t>())); }

  void add(GgufType type, GgufValue& to) {
    const auto add_number = [&](auto value) { to.numbers.push_back(static_cast<double>(value)); };
    switch (type) {
      case GgufType::kU8:
      case GgufType::kBool: return add_number(number<uint8_t>());
      case GgufType::kI8: return add_number(number<int8_t>());
      case GgufType::kU16: return add_number(number<uint16_t>());
      case GgufType::kI16: return add_number(number<int16_t>());
      case GgufType::kU32: return add_number(number<uint32_t>());
      case GgufType::kI32: return add_number(number<int32_t>());
      case GgufType::kF32: return add_number(number<float>());
      case GgufType::kU64: return add_number(number<uint64_t>());
      case GgufType::kI64: return add_number(number<int64_t>());
      case GgufType::kF64: return add_number(number<double>());
      case GgufType::kText: return to.texts.push_back(text());
      case GgufType::kList: break;
    }
    fail("is cut off or damaged; download it again");
  }

  GgufValue read_value(GgufType type) {
    GgufValue value;
    value.is_list = type == GgufType::kList;
    if (!value.is_list) {
      add(type, value);
      return value;
    }
    const GgufType element = static_cast<GgufType>(number<uint32_t>());
    for (uint64_t count = number<uint64_t>(); count > 0; --count) add(element, value);
    return value;
  }

  std::filesystem::path path_;
  std::string_view rest_;
};

// ---- tokenizers

// clang-format off
const std::string kLlama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// clang-format on

// How the text of a family of models is split. GGUF files name it as tokenizer.ggml.pre.
struct Family {
  std::vector<const char*> names;
  std::vector<std::string> regexes;  // one after another
  bool is_normalized = false;        // NFC
  bool tries_whole = false;
  bool begins = false;  // with the token bos, if the file does not say
};

const std::vector<Family>& families() {
  static const std::vector<Family> rows = {
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais"}, {kGpt2Regex}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"},
       {R"(\p{N})", kGpt2Regex}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"}, {kLlama3}, false, true, true},
      {{"dbrx", "smaug-bpe"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen"}, {kQwen2}, true},
      {{"stablelm2", "hunyuan"}, {kQwen2}},
      {{"tekken"}, {kTekken}, false, true, true},
  };
  return rows;
}

class Maker {
 public:
  Maker(const std::filesystem::path& path, std::string_view bytes)
      : path_(path), values_(GgufReader(path, bytes).read("tokenizer.")) {
    tokenizer_.file = path.string();
    const std::string model = text("ggml.model", "");
    if (model == "gpt2")
      make_byte_level();
    else if (model == "llama")
      make_sentence_piece();
    else
      fail(fmt::format("has the tokenizer '{}', want gpt2 or llama; give a tokenizer.json",
                       printable_line(model)));
    add_special();
    tokenizer_.chat_template = text("chat_template", "");
  }
  Tokenizer take() { return std::move(tokenizer_); }

 private:
  // Values of tokenizer.ggml.token_type.
  static constexpr double kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", path_.string(), what);
  }
  const GgufValue* find(const std::string& name) const {
    const auto found = values_.find("tokenizer." + name);
    return found == values_.end() ? nullptr : &found->second;
  }
  std::string text(const std::string& name, const std::string& standard) const {
    const GgufValue* value = find(name);
    if (value == nullptr) return standard;
    if (value->is_list || value->texts.size() != 1) fail("has no text tokenizer." + name);
    return value->texts[0];
  }
  int64_t number(const std::string& name, int64_t standard) const {
    const GgufValue* value = find(name);
    if (value == nullptr) return standard;
    if (value->is_list || value->numbers.size() != 1) fail("has no number tokenizer." + name);
    if (std::abs(value->numbers[0]) > 1e15) fail("has a wrong number tokenizer." + name);
    return static_cast<int64_t>(value->numbers[0]);
  }
  const std::vector<std::string>& texts(const std::string& name) const {
    const GgufValue* value = find(name);
    if (value == nullptr || value->texts.empty()) fail("has no list tokenizer." + name);
    return value->texts;
  }
  // One number for each token.
  std::vector<double> numbers(const std::string& name) const {
    const GgufValue* value = find(name);
    const size_t count = texts("ggml.tokens").size();
    if (value == nullptr || value->numbers.size() != count)
      fail(fmt::format("has no {} numbers in tokenizer.{}", count, name));
    return value->numbers;
  }

  void add_tokens() {
    const std::vector<std::string>& tokens = texts("ggml.tokens");
    kinds_ = numbers("ggml.token_type");
    for (size_t id = 0; id < tokens.size(); ++id)
      tokenizer_.model.add(tokens[id], static_cast<Id>(id));
    for (size_t id = 0; id < tokens.size(); ++id) {
      const bool is_special = kinds_[id] == kControl || kinds_[id] == kUnknown;
      if (is_special || kinds_[id] == kUserDefined)
        tokenizer_.add({.text = tokens[id], .id = static_cast<Id>(id), .is_special = is_special});
    }
  }

  void make_byte_level() {
    const std::string name = text("ggml.pre", "default");
    std::vector<const char*> known;
    for (const Family& family : families()) {
      known.insert(known.end(), family.names.begin(), family.names.end());
      if (std::find(family.names.begin(), family.names.end(), name) != family.names.end()) {
        split_as(family);
        break;
      }
    }
    if (tokenizer_.pre_tokenizers.empty())
      fail(fmt::format("splits text as '{}', want one of {}; give a tokenizer.json",
                       printable_line(name), fmt::join(known, ", ")));
    tokenizer_.decoders.push_back(decode_byte_level());
    add_tokens();
    for (const std::string& merge : texts("ggml.merges")) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos ||
          !tokenizer_.model.add_merge(merge.substr(0, space), merge.substr(space + 1)))
        fail(fmt::format("has the merge '{}', whose parts or whole are not tokens",
                         short_line(merge, 80)));
    }
  }

  void split_as(const Family& family) {
    if (family.is_normalized) tokenizer_.normalizers.emplace_back(normalization_form_c);
    for (const std::string& regex : family.regexes)
      tokenizer_.pre_tokenizers.push_back(split(regex, Behavior::kIsolated, false));
    tokenizer_.pre_tokenizers.push_back(byte_level(false, false));
    tokenizer_.model.tries_whole = family.tries_whole;
    begins_ = family.begins;
  }

  void make_sentence_piece() {
    const std::string mark = "\u2581";
    const bool adds_space = number("ggml.add_space_prefix", 1) != 0;
    if (adds_space) tokenizer_.normalizers.push_back(prepend(mark));
    tokenizer_.normalizers.push_back(replace(" ", mark));
    tokenizer_.decoders = {decode_replace(mark, " "), decode_byte_fallback(), fuse()};
    if (adds_space) tokenizer_.decoders.push_back(decode_strip(" ", 1, 0));
    add_tokens();
    std::vector<float> scores;
    for (const double score : numbers("ggml.scores")) scores.push_back(static_cast<float>(score));
    std::vector<bool> is_merged;
    for (const double kind : kinds_) is_merged.push_back(kind == kNormal);
    tokenizer_.model.add_merges_by_score(scores, is_merged);
    const int64_t unknown = number("ggml.unknown_token_id", 0);
    if (unknown >= 0 && unknown < static_cast<int64_t>(kinds_.size()))
      tokenizer_.model.unknown = static_cast<Id>(unknown);
    tokenizer_.model.fuses_unknown = tokenizer_.model.has_bytes = true;
    begins_ = true;
  }

  void add_special() {
    const auto id_of = [&](const char* name) {
      const int64_t id = number(name, -1);
      if (id >= static_cast<int64_t>(kinds_.size()))
        fail(fmt::format("has tokenizer.{} {}, want less than {}", name, id, kinds_.size()));
      return id;
    };
    const int64_t begin = id_of("ggml.bos_token_id"), end = id_of("ggml.eos_token_id");
    tokenizer_.begin_token = tokenizer_.token(begin);
    tokenizer_.end_token = tokenizer_.token(end);
    if (begin >= 0 && number("ggml.add_bos_token", begins_ ? 1 : 0) != 0)
      tokenizer_.prefix.push_back(begin);
    if (end >= 0 && number("ggml.add_eos_token", 0) != 0) tokenizer_.suffix.push_back(end);
  }

  std::filesystem::path path_;
  std::map<std::string, GgufValue> values_;
  Tokenizer tokenizer_;
  std::vector<double> kinds_;
  bool begins_ = false;
};

}  // namespace

Tokenizer read_tokenizer_gguf(const std::filesystem::path& path, std::string_view bytes) {
  return Maker(path, bytes).take();
}

}  // namespace octet::tokenizer
