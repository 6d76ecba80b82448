#include "backends/tokenizer/regex.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/tokenizer/unicode.h"
#include "core/base/error.h"
#include "core/base/printable.h"

namespace octet::tokenizer {
namespace {

constexpr size_t kNoLimit = static_cast<size_t>(-1);

}  // namespace

// A range of code points, categories, or spaces.
struct RegexTerm {
  char32_t first = 1, last = 0;
  uint32_t categories = 0;
  bool spaces = false, is_negated = false;

  bool has(char32_t point) const {
    const bool found = (point >= first && point <= last) ||
                       (categories != 0 && (category_bit(point) & categories) != 0) ||
                       (spaces && is_space(point));
    return found != is_negated;
  }
};

struct RegexSet {
  std::vector<RegexTerm> terms;
  bool is_negated = false, ignores_case = false;

  bool has_one(char32_t point) const {
    return std::any_of(terms.begin(), terms.end(),
                       [&](const RegexTerm& t) { return t.has(point); });
  }
  bool has(char32_t point) const {
    bool found = has_one(point);
    if (!found && ignores_case) {
      // The only characters with an ASCII letter as other case: long s, and the sign for kelvin.
      const char32_t plain = point == 0x17F ? U's' : point == 0x212A ? U'k' : point;
      const bool is_letter = (plain | 0x20) >= U'a' && (plain | 0x20) <= U'z';
      found = has_one(plain) || (is_letter && (has_one(plain | 0x20) || has_one(plain & ~0x20u)));
      found = found || ((plain | 0x20) == U's' && has_one(0x17F));
      found = found || ((plain | 0x20) == U'k' && has_one(0x212A));
    }
    return found != is_negated;
  }
};

// A class, a group, a lookahead or the end of a line, and how often it is repeated.
struct Regex::Item {
  enum class Kind { kSet, kGroup, kAhead, kNotAhead, kLineEnd };
  using Sequence = std::vector<Item>;
  Kind kind = Kind::kGroup;
  RegexSet set = {};
  std::vector<Sequence> alternatives = {};
  size_t least = 1, most = 1;
  bool is_possessive = false;
};

struct Regex::Parser {
  const std::string& pattern;
  std::u32string text = decode_utf8(pattern);
  size_t at = 0;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("tokenizer", "regex " + short_line(pattern, 80),
                fmt::format("has {} at character {}, which Octet does not read", what, at));
  }
  bool ended() const { return at == text.size(); }
  bool skip(std::u32string_view word) {
    if (std::u32string_view(text).substr(at, word.size()) != word) return false;
    at += word.size();
    return true;
  }
  char32_t next() {
    if (ended()) refuse("an unexpected end");
    return text[at++];
  }

  std::vector<Item::Sequence> alternatives(bool ignores_case, int depth) {
    if (depth > 20) refuse("groups more than 20 deep");
    std::vector<Item::Sequence> all(1);
    while (!ended() && text[at] != U')') {
      if (skip(U"|"))
        all.emplace_back();
      else
        all.back().push_back(repeated(item(ignores_case, depth)));
    }
    return all;
  }

  Item item(bool ignores_case, int depth) {
    if (skip(U"(")) {
      Item group;
      if (skip(U"?=")) {
        group.kind = Item::Kind::kAhead;
      } else if (skip(U"?!")) {
        group.kind = Item::Kind::kNotAhead;
      } else if (skip(U"?i:")) {
        ignores_case = true;
      } else if (!skip(U"?:") && !ended() && text[at] == U'?') {
        refuse("a group (?" + encode_utf8(text.substr(at + 1, 2)));
      }
      group.alternatives = alternatives(ignores_case, depth + 1);
      if (!skip(U")")) refuse("a group without )");
      return group;
    }
    if (skip(U"$")) return Item{.kind = Item::Kind::kLineEnd};
    Item item{.kind = Item::Kind::kSet};
    item.set.ignores_case = ignores_case;
    if (skip(U"["))
      read_class(item.set);
    else if (const char32_t c = next(); c == U'\\')
      item.set.terms.push_back(escape());
    else if (c == U'.')
      item.set.terms.push_back({.first = U'\n', .last = U'\n', .is_negated = true});
    else if (std::u32string_view(U"^*+?{}]").find(c) != std::u32string_view::npos)
      --at, refuse(encode_utf8(std::u32string(1, c)));
    else
      item.set.terms.push_back({.first = c, .last = c});
    return item;
  }

  void read_class(RegexSet& set) {
    set.is_negated = skip(U"^");
    for (bool is_first = true; !skip(U"]"); is_first = false) {
      if (!ended() && (text[at] == U'[' || (text[at] == U'&' && skip(U"&&"))))
        refuse("a class in a class");
      const char32_t c = next();
      RegexTerm term = c == U'\\' ? escape() : RegexTerm{.first = c, .last = c};
      const bool is_range = !is_first || term.first == term.last;
      if (is_range && term.first == term.last && at + 1 < text.size() && text[at] == U'-' &&
          text[at + 1] != U']') {
        ++at;
        const char32_t last = next();
        const RegexTerm end = last == U'\\' ? escape() : RegexTerm{.first = last, .last = last};
        if (end.first != end.last || end.first < term.first) refuse("a wrong range");
        term.last = end.last;
      }
      set.terms.push_back(term);
    }
  }

  // What follows a backslash.
  RegexTerm escape() {
    const char32_t c = next();
    const auto one = [](char32_t point) { return RegexTerm{.first = point, .last = point}; };
    switch (c) {
      case U'r': return one(U'\r');
      case U'n': return one(U'\n');
      case U't': return one(U'\t');
      case U'f': return one(U'\f');
      case U'v': return one(U'\v');
      case U's': return {.spaces = true};
      case U'S': return {.spaces = true, .is_negated = true};
      case U'd': return {.categories = category_bits("Nd")};
      case U'D': return {.categories = category_bits("Nd"), .is_negated = true};
      case U'p':
      case U'P': return category(c == U'P');
      default: break;
    }
    if (c >= 0x80 || (c | 0x20) - U'a' < 26 || c - U'0' < 10)
      --at, refuse("\\" + encode_utf8(std::u32string(1, c)));
    return one(c);
  }

  RegexTerm category(bool is_negated) {
    std::u32string name;
    if (skip(U"{")) {
      if (skip(U"^")) is_negated = !is_negated;
      while (!skip(U"}")) name += next();
    } else {
      name = next();
    }
    const uint32_t bits = category_bits(encode_utf8(name));
    if (bits == 0) refuse("\\p{" + encode_utf8(name) + "}");
    return {.categories = bits, .is_negated = is_negated};
  }

  size_t number() {
    size_t value = 0;
    const size_t before = at;
    while (!ended() && text[at] - U'0' < 10 && value < 10000)
      value = value * 10 + text[at++] - U'0';
    if (at == before) refuse("{ without a number");
    return value;
  }

  Item repeated(Item item) {
    const size_t before = at;
    if (skip(U"?")) {
      item.least = 0;
    } else if (skip(U"*")) {
      item.least = 0, item.most = kNoLimit;
    } else if (skip(U"+")) {
      item.most = kNoLimit;
    } else if (skip(U"{")) {
      item.least = !ended() && text[at] == U',' ? 0 : number();
      item.most = !skip(U",") ? item.least : !ended() && text[at] == U'}' ? kNoLimit : number();
      if (!skip(U"}") || item.most < item.least) refuse("a wrong { }");
    }
    const bool is_repeated = at != before, is_braced = is_repeated && text[at - 1] == U'}';
    if (is_repeated && item.kind != Item::Kind::kSet && item.kind != Item::Kind::kGroup)
      refuse("a repeated lookahead");
    // In Oniguruma, + after { } repeats once more.
    if (is_repeated && item.kind == Item::Kind::kSet && !is_braced) item.is_possessive = skip(U"+");
    if (is_repeated && !ended() && (text[at] == U'?' || text[at] == U'+' || text[at] == U'*'))
      refuse("a second quantifier");
    return item;
  }
};

struct Regex::Matcher {
  std::u32string_view text;
  int depth = 0;

  // What has to match after an item; a reference to a function without its allocation.
  struct Rest {
    const void* object;
    bool (*call)(const void*, size_t);
    template <typename Function>
    Rest(const Function& function)  // NOLINT: converts
        : object(&function),
          call([](const void* o, size_t at) { return (*static_cast<const Function*>(o))(at); }) {}
    bool operator()(size_t at) const { return call(object, at); }
  };

  bool sequence(const Item::Sequence& items, size_t i, size_t at, const Rest& rest) {
    if (i == items.size()) return rest(at);
    const Item& item = items[i];
    const auto next = [&](size_t end) { return sequence(items, i + 1, end, rest); };
    switch (item.kind) {
      case Item::Kind::kSet: return set(item, at, next);
      case Item::Kind::kGroup: return group(item, 0, at, next);
      case Item::Kind::kLineEnd: return (at == text.size() || text[at] == U'\n') && next(at);
      case Item::Kind::kAhead:
      case Item::Kind::kNotAhead: break;
    }
    const bool wanted = item.kind == Item::Kind::kAhead;
    return any(item, at, [](size_t) { return true; }) == wanted && next(at);
  }

  bool any(const Item& group, size_t at, const Rest& rest) {
    return std::any_of(group.alternatives.begin(), group.alternatives.end(),
                       [&](const Item::Sequence& items) { return sequence(items, 0, at, rest); });
  }

  bool set(const Item& item, size_t at, const Rest& rest) {
    size_t count = 0;
    while (count < item.most && at + count < text.size() && item.set.has(text[at + count])) ++count;
    if (count < item.least) return false;
    if (item.is_possessive) return rest(at + count);
    for (;; --count) {
      if (rest(at + count)) return true;
      if (count == item.least) return false;
    }
  }

  // Takes as many rounds as possible.
  bool group(const Item& item, size_t rounds, size_t at, const Rest& rest) {
    constexpr int kDeepest = 2000;
    if (++depth > kDeepest)
      throw Error("tokenizer", "text", "repeats a group of the tokenizer's regex too often");
    const auto again = [&](size_t end) {
      return (end != at || rounds < item.least) && group(item, rounds + 1, end, rest);
    };
    const bool found =
        (rounds < item.most && any(item, at, again)) || (rounds >= item.least && rest(at));
    --depth;
    return found;
  }
};

Regex::Regex(const std::string& pattern) : root_(std::make_unique<Item>()) {
  Parser parser{pattern};
  root_->alternatives = parser.alternatives(false, 0);
  if (!parser.ended()) parser.refuse("an unexpected )");
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<size_t> Regex::match(std::u32string_view text, size_t at) const {
  std::optional<size_t> found;
  Matcher matcher{text};
  matcher.any(*root_, at, [&](size_t end) { return found = end, true; });
  return found;
}

}  // namespace octet::tokenizer
