#include "backends/tokenizer/steps.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "backends/tokenizer/unicode.h"

namespace octet::tokenizer {
namespace {

// Which character stands for each byte: itself if it is printable Latin-1, else one from U+0100 on.
const std::array<char32_t, 256>& byte_characters() {
  static const std::array<char32_t, 256> characters = [] {
    std::array<char32_t, 256> all{};
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      all[byte] = is_printable ? byte : next++;
    }
    return all;
  }();
  return characters;
}

std::string replaced(const std::string& text, const std::string& what, const std::string& by) {
  if (what.empty()) return text;
  std::string result;
  size_t from = 0;
  for (size_t at; (at = text.find(what, from)) != std::string::npos; from = at + what.size())
    result.append(text, from, at - from).append(by);
  return result.append(text, from);
}

struct Part {
  size_t begin, end;
  bool matches;
};

// Joins each part that matches with its neighbor in the order of `parts`, as tokenizers does.
std::vector<Part> merge(const std::vector<Part>& parts, bool is_reversed) {
  std::vector<Part> merged;
  bool previous = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[is_reversed ? parts.size() - 1 - i : i];
    if (part.matches && !previous && !merged.empty())
      (is_reversed ? merged.back().begin : merged.back().end) = is_reversed ? part.begin : part.end;
    else
      merged.push_back(part);
    previous = part.matches;
  }
  if (is_reversed) return {merged.rbegin(), merged.rend()};
  return merged;
}

std::vector<Part> joined_equals(const std::vector<Part>& parts) {
  std::vector<Part> joined;
  for (const Part& part : parts) {
    if (!joined.empty() && joined.back().matches == part.matches)
      joined.back().end = part.end;
    else
      joined.push_back(part);
  }
  return joined;
}

std::vector<Part> behave(std::vector<Part> parts, Behavior behavior) {
  switch (behavior) {
    case Behavior::kRemoved: std::erase_if(parts, [](const Part& p) { return p.matches; }); break;
    case Behavior::kIsolated: break;
    case Behavior::kMergedWithPrevious: return merge(parts, false);
    case Behavior::kMergedWithNext: return merge(parts, true);
    case Behavior::kContiguous: return joined_equals(parts);
  }
  return parts;
}

// The parts of a text that match and those in between, in order.
std::vector<Part> find_parts(const Regex& regex, std::u32string_view text) {
  std::vector<Part> parts;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const std::optional<size_t> end = regex.match(text, at);
    if (!end || *end == at) {
      ++at;
      continue;
    }
    if (begin < at) parts.push_back({begin, at, false});
    parts.push_back({at, *end, true});
    begin = at = *end;
  }
  if (begin < text.size()) parts.push_back({begin, text.size(), false});
  return parts;
}

void split_word(const Regex& regex, Behavior behavior, bool inverts, const std::string& word,
                Words& to) {
  const std::u32string text = decode_utf8(word);
  std::vector<Part> parts = find_parts(regex, text);
  for (Part& part : parts) part.matches = part.matches != inverts;
  for (const Part& part : behave(std::move(parts), behavior))
    to.push_back(encode_utf8(std::u32string_view(text).substr(part.begin, part.end - part.begin)));
}

}  // namespace

const char* const kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string quoted_regex(const std::string& text) {
  std::string regex;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{})").find(c) != std::string_view::npos) regex += '\\';
    regex += c;
  }
  return regex;
}

Normalizer replace(const std::string& text, const std::string& by) {
  return [=](const std::string& given) { return replaced(given, text, by); };
}

Normalizer prepend(const std::string& text) {
  return [=](const std::string& given) { return given.empty() ? given : text + given; };
}

PreTokenizer split(const std::string& pattern, Behavior behavior, bool inverts) {
  return [=, regex = std::make_shared<Regex>(pattern)](const Words& words, bool) {
    Words result;
    for (const std::string& word : words) split_word(*regex, behavior, inverts, word, result);
    return result;
  };
}

PreTokenizer digits(bool each_alone) {
  return split(R"(\p{N})", each_alone ? Behavior::kIsolated : Behavior::kContiguous, false);
}

PreTokenizer byte_level(bool adds_space, bool splits) {
  const std::shared_ptr<Regex> regex = splits ? std::make_shared<Regex>(kGpt2Regex) : nullptr;
  return [=](const Words& words, bool) {
    Words parts;
    for (const std::string& word : words) {
      const bool needs_space = adds_space && !word.starts_with(' ');
      const std::string given = needs_space ? " " + word : word;
      if (regex)
        split_word(*regex, Behavior::kIsolated, false, given, parts);
      else
        parts.push_back(given);
    }
    for (std::string& part : parts) {
      std::string characters;
      for (const char byte : part)
        append_utf8(characters, byte_characters()[static_cast<uint8_t>(byte)]);
      part = std::move(characters);
    }
    return parts;
  };
}

PreTokenizer metaspace(const std::string& mark, Prepend scheme, bool splits) {
  const std::shared_ptr<Regex> regex = std::make_shared<Regex>(quoted_regex(mark));
  return [=](const Words& words, bool is_start) {
    Words result;
    for (size_t i = 0; i < words.size(); ++i) {
      std::string word = replaced(words[i], " ", mark);
      const bool prepends =
          scheme == Prepend::kAlways || (scheme == Prepend::kFirst && is_start && i == 0);
      if (prepends && !word.starts_with(mark)) word = mark + word;
      if (splits)
        split_word(*regex, Behavior::kMergedWithNext, false, word, result);
      else
        result.push_back(std::move(word));
    }
    return result;
  };
}

Decoder decode_byte_level() {
  return [](const Words& tokens) {
    static const std::unordered_map<char32_t, char> bytes = [] {
      std::unordered_map<char32_t, char> all;
      for (size_t byte = 0; byte < 256; ++byte)
        all[byte_characters()[byte]] = static_cast<char>(byte);
      return all;
    }();
    std::string text;
    for (const std::string& token : tokens) {
      std::string decoded;
      for (const char32_t point : decode_utf8(token)) {
        const auto found = bytes.find(point);
        if (found == bytes.end()) {  // an added token, which is text
          decoded = token;
          break;
        }
        decoded += found->second;
      }
      text += decoded;
    }
    return Words{valid_utf8(text)};
  };
}

Decoder decode_byte_fallback() {
  return [](const Words& tokens) {
    Words result;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      // Each byte of a wrong character becomes U+FFFD.
      const bool is_valid = valid_utf8(bytes) == bytes;
      std::string wrong;
      for (size_t i = 0; i < bytes.size(); ++i) wrong += "\uFFFD";
      result.push_back(is_valid ? bytes : wrong);
      bytes.clear();
    };
    for (const std::string& token : tokens) {
      unsigned byte = 0;
      const char* const end = token.data() + token.size();
      if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>') &&
          std::from_chars(token.data() + 3, end - 1, byte, 16).ptr == end - 1) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      result.push_back(token);
    }
    flush();
    return result;
  };
}

Decoder decode_replace(const std::string& text, const std::string& by) {
  return [=](const Words& tokens) {
    Words result;
    for (const std::string& token : tokens) result.push_back(replaced(token, text, by));
    return result;
  };
}

Decoder decode_strip(const std::string& text, size_t at_start, size_t at_end) {
  return [=](const Words& tokens) {
    Words result = tokens;
    for (std::string& token : result) {
      for (size_t i = 0; i < at_start && token.starts_with(text); ++i) token.erase(0, text.size());
      for (size_t i = 0; i < at_end && token.ends_with(text); ++i)
        token.resize(token.size() - text.size());
    }
    return result;
  };
}

Decoder decode_metaspace(const std::string& mark, Prepend scheme) {
  return [=](const Words& tokens) {
    Words result;
    for (size_t i = 0; i < tokens.size(); ++i)
      result.push_back(replaced(tokens[i], mark, i == 0 && scheme != Prepend::kNever ? "" : " "));
    return result;
  };
}

Decoder fuse() {
  return [](const Words& tokens) {
    std::string text;
    for (const std::string& token : tokens) text += token;
    return Words{text};
  };
}

}  // namespace octet::tokenizer
