#include "backends/tokenizer/unicode.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet::tokenizer {
namespace {

constexpr uint32_t kCategoryRuns[] = {
#include "backends/tokenizer/unicode_categories.inc"
};
constexpr uint32_t kDecompositions[] = {
#include "backends/tokenizer/unicode_decompositions.inc"
};
constexpr uint32_t kMarks[] = {
#include "backends/tokenizer/unicode_marks.inc"
};

constexpr char32_t kReplacement = 0xFFFD;

// The numbers of Hangul syllables, which are composed by arithmetic (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

struct Normalization {
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> parts;
  std::map<std::pair<char32_t, char32_t>, char32_t> composed;
  std::unordered_map<char32_t, uint32_t> marks;  // the combining class of each

  Normalization() {
    char32_t point = 0;
    for (const uint32_t* at = kDecompositions; at != std::end(kDecompositions); at += 4) {
      point += at[0];
      parts[point] = {at[1], at[2]};
      if (at[3] != 0) composed[{at[1], at[2]}] = point;
    }
    point = 0;
    for (const uint32_t* at = kMarks; at != std::end(kMarks); at += 2)
      marks[point += at[0]] = at[1];
  }

  uint32_t class_of(char32_t point) const {
    const auto found = marks.find(point);
    return found == marks.end() ? 0 : found->second;
  }

  void decompose(char32_t point, std::u32string& to) const {
    const char32_t syllable = point - kSyllables;
    if (point >= kSyllables && syllable < kSyllableCount) {
      to += kLeads + syllable / (kVowelCount * kTailCount);
      to += kVowels + syllable / kTailCount % kVowelCount;
      if (syllable % kTailCount != 0) to += kTails + syllable % kTailCount;
      return;
    }
    const auto found = parts.find(point);
    if (found == parts.end()) {
      to += point;
      return;
    }
    decompose(found->second.first, to);
    if (found->second.second != 0) decompose(found->second.second, to);
  }

  // The character that two make together, or 0.
  char32_t compose(char32_t a, char32_t b) const {
    if (a >= kLeads && a < kLeads + kLeadCount && b >= kVowels && b < kVowels + kVowelCount)
      return kSyllables + ((a - kLeads) * kVowelCount + (b - kVowels)) * kTailCount;
    const char32_t syllable = a - kSyllables;
    if (a >= kSyllables && syllable < kSyllableCount && syllable % kTailCount == 0 && b > kTails &&
        b < kTails + kTailCount)
      return a + (b - kTails);
    const auto found = composed.find({a, b});
    return found == composed.end() ? 0 : found->second;
  }
};

const std::vector<uint32_t>& run_ends() {
  static const std::vector<uint32_t> ends = [] {
    std::vector<uint32_t> all;
    uint32_t end = 0;
    for (const uint32_t run : kCategoryRuns) all.push_back(end += run / 32);
    return all;
  }();
  return ends;
}

// Sorts each run of marks by class.
void order_marks(const Normalization& table, std::u32string& text) {
  const auto by_class = [&](char32_t a, char32_t b) {
    return table.class_of(a) < table.class_of(b);
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && table.class_of(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<long>(i), text.begin() + static_cast<long>(end),
                     by_class);
    i = std::max(end, i + 1);
  }
}

std::u32string composed(const Normalization& table, const std::u32string& text) {
  std::u32string result;
  size_t starter = std::u32string::npos;
  uint32_t last = 0;  // the class of the last character after the starter that stayed
  for (const char32_t point : text) {
    const uint32_t mark = table.class_of(point);
    const bool is_next = starter != std::u32string::npos && starter + 1 == result.size();
    if (starter != std::u32string::npos && (is_next || (last < mark && last != 0))) {
      if (const char32_t whole = table.compose(result[starter], point)) {
        result[starter] = whole;
        continue;
      }
    }
    if (mark == 0) starter = result.size();
    last = mark;
    result += point;
  }
  return result;
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text.substr(at));
    if (size == 0)
      throw Error("tokenizer", "text",
                  fmt::format("is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8", at,
                              static_cast<uint8_t>(text[at])));
    points += code_point(text.substr(at, size));
    at += size;
  }
  return points;
}

void append_utf8(std::string& text, char32_t point) {
  if (point < 0x80) {
    text += static_cast<char>(point);
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  text += static_cast<char>((0xFF00u >> (more + 1) & 0xFF) | point >> 6 * more);
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (point >> 6 * i & 0x3F));
}

std::string encode_utf8(std::u32string_view points) {
  std::string text;
  for (const char32_t point : points) append_utf8(text, point);
  return text;
}

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    size_t prefix = 0;
    const size_t size = character_size(bytes.substr(at), &prefix);
    if (size == 0)
      append_utf8(text, kReplacement);
    else
      text += bytes.substr(at, size);
    at += size == 0 ? prefix : size;
  }
  return text;
}

uint32_t category_bit(char32_t point) {
  const std::vector<uint32_t>& ends = run_ends();
  const auto run = std::upper_bound(ends.begin(), ends.end(), static_cast<uint32_t>(point));
  return 1u << (kCategoryRuns[run - ends.begin()] % 32);
}

uint32_t category_bits(std::string_view name) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kCategories.size(); i += 2)
    if (!name.empty() && kCategories.substr(i, 2).substr(0, name.size()) == name)
      bits |= 1u << i / 2;
  return bits;
}

bool is_number(char32_t point) {
  static const uint32_t bits = category_bits("N");
  return (category_bit(point) & bits) != 0;
}

bool is_space(char32_t point) {
  return (point >= 9 && point <= 13) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

std::string normalization_form_c(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; }))
    return text;
  static const Normalization table;
  std::u32string parts;
  for (const char32_t point : decode_utf8(text)) table.decompose(point, parts);
  order_marks(table, parts);
  return encode_utf8(composed(table, parts));
}

}  // namespace octet::tokenizer
