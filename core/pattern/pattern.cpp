// Parses the notation of patterns. The matcher is in match.cpp.
#include "core/pattern/pattern.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

// Names that stand for several ops.
struct Alias {
  std::string_view name;
  std::vector<std::string> ops;
};
const std::vector<Alias>& aliases() {
  static const std::vector<Alias> kAliases = {
      {"q",
       {"quantized_decomposed.quantize_per_tensor", "quantized_decomposed.quantize_per_channel"}},
      {"dq",
       {"quantized_decomposed.dequantize_per_tensor",
        "quantized_decomposed.dequantize_per_channel"}},
  };
  return kAliases;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) { pattern_.text = std::string(text); }

  Pattern run() {
    skip_blanks();
    pattern_.root = term();
    skip_blanks();
    if (position_ < text_.size()) fail("nothing more");
    if (pattern_.root.kind != PatternTerm::Kind::kCall)
      fail_at(0, "an op with its arguments in parentheses");
    if (pattern_.root.is_list || pattern_.root.is_optional) fail_at(0, "a single op outermost");
    return std::move(pattern_);
  }

 private:
  char at(size_t offset = 0) const {
    return position_ + offset < text_.size() ? text_[position_ + offset] : '\0';
  }
  void skip_blanks() {
    while (std::isspace(static_cast<unsigned char>(at())) != 0) ++position_;
  }
  [[noreturn]] void fail_at(size_t position, const std::string& want) const {
    const std::string got =
        position < text_.size() ? fmt::format("'{}'", text_.substr(position, 12)) : "the end";
    throw Error("pattern", pattern_.text,
                fmt::format("column {}: got {}, want {}", position + 1, got, want));
  }
  [[noreturn]] void fail(const std::string& want) const { fail_at(position_, want); }
  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(std::min(position_, text_.size())).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  // Letters, digits, _ and single dots; not the dots of a list.
  std::string name() {
    skip_blanks();
    const size_t start = position_;
    const auto is_letter = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    while (is_letter(at()) || (at() == '.' && position_ > start && is_letter(at(1)))) ++position_;
    if (position_ == start || std::isdigit(static_cast<unsigned char>(text_[start])) != 0)
      fail_at(start, "a name");
    return std::string(text_.substr(start, position_ - start));
  }

  static void add_ops(const std::string& name, std::vector<std::string>& ops) {
    for (const Alias& alias : aliases()) {
      if (alias.name != name) continue;
      ops.insert(ops.end(), alias.ops.begin(), alias.ops.end());
      return;
    }
    ops.push_back(name.find('.') == std::string::npos ? "aten." + name : name);
  }

  PatternTerm term() {
    skip_blanks();
    const size_t start = position_;
    PatternTerm term;
    if (take("{")) {
      do add_ops(name(), term.ops);
      while (take("|"));
      if (!take("}")) fail("'|' or '}'");
      if (!take("(")) fail("'(' and the arguments of the ops");
      call(term);
    } else {
      const std::string word = name();
      if (take("(")) {
        add_ops(word, term.ops);
        call(term);
      } else if (word == "_") {
        term.kind = PatternTerm::Kind::kAny;
      } else {
        if (word.find('.') != std::string::npos)
          fail_at(start, "a variable without dots, or an op with its arguments in parentheses");
        term.variable = word;
      }
    }
    suffix(term, start);
    return term;
  }

  void suffix(PatternTerm& term, size_t start) {
    if (take("..."))
      term.is_list = true;
    else if (take("?"))
      term.is_optional = true;
    if (term.is_optional && term.kind == PatternTerm::Kind::kCall)
      fail_at(start, "a variable before '?'");
    if (term.kind != PatternTerm::Kind::kVariable) return;
    for (PatternVariable& known : pattern_.variables) {
      if (known.name != term.variable) continue;
      if (known.is_list != (term.is_list || list_depth_ > 0))
        fail_at(start, "the variable as a list everywhere or nowhere");
      known.is_optional = known.is_optional && term.is_optional;
      return;
    }
    pattern_.variables.push_back(
        {term.variable, term.is_optional, term.is_list || list_depth_ > 0});
  }

  // Whether the call whose arguments start here is followed by "...": its variables bind lists
  // then.
  bool is_list_call() const {
    int depth = 1;
    size_t i = position_;
    for (; i < text_.size() && depth > 0; ++i)
      depth += text_[i] == '(' ? 1 : text_[i] == ')' ? -1 : 0;
    while (i < text_.size() && std::isspace(static_cast<unsigned char>(text_[i])) != 0) ++i;
    return text_.substr(std::min(i, text_.size())).starts_with("...");
  }

  // The arguments after '('. Those of q and dq that hold scales and zero points need not be named.
  void call(PatternTerm& term) {
    term.kind = PatternTerm::Kind::kCall;
    term.ignores_rest = std::all_of(term.ops.begin(), term.ops.end(), [](const std::string& op) {
      return op.starts_with("quantized_decomposed.");
    });
    ++pattern_.call_count;
    const bool is_list = is_list_call();
    list_depth_ += is_list ? 1 : 0;
    bool seen_optional = false;
    if (!take(")")) {
      do {
        if (take("...")) {
          term.ignores_rest = true;
          break;
        }
        skip_blanks();
        const size_t start = position_;
        term.parameters.push_back(this->term());
        if (seen_optional && !term.parameters.back().is_optional)
          fail_at(start, "only optional arguments after an optional one");
        seen_optional = term.parameters.back().is_optional;
      } while (take(","));
      if (!take(")")) fail("',' or ')'");
    }
    list_depth_ -= is_list ? 1 : 0;
  }

  std::string_view text_;
  size_t position_ = 0;
  int list_depth_ = 0;
  Pattern pattern_;
};

}  // namespace

const PatternVariable* Pattern::find_variable(std::string_view name) const {
  const auto found =
      std::find_if(variables.begin(), variables.end(),
                   [&](const PatternVariable& variable) { return variable.name == name; });
  return found == variables.end() ? nullptr : &*found;
}

Pattern parse_pattern(std::string_view text) { return PatternParser(text).run(); }

}  // namespace octet
