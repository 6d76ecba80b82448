// Parses patterns and expands them into variants. match.cpp has the matcher.
//
// relu?(conv2d(x, w)) has the variants relu(conv2d(x, w)) and conv2d(x, w), add[conv2d(x, w), y]
// the variants add(conv2d(x, w), y) and add(y, conv2d(x, w)). Slots such as b? stay optional.
#include "core/pattern/pattern.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

// Names for several ops.
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

// ---- variants

constexpr size_t kMostVariants = 64;

// All forms of a term, in no order of preference.
std::vector<PatternVariant> forms_of(const PatternTerm& term, const std::string& pattern) {
  if (term.kind != PatternTerm::Kind::kCall) return {{term, {}}};
  std::vector<PatternVariant> forms = {{term, {}}};
  forms.front().root.parameters.clear();
  forms.front().root.is_optional = forms.front().root.in_either_order = false;
  std::vector<PatternVariant> without;
  for (const PatternTerm& parameter : term.parameters) {
    const std::vector<PatternVariant> choices = forms_of(parameter, pattern);
    if (term.is_optional && without.empty()) without = choices;
    std::vector<PatternVariant> longer;
    for (const PatternVariant& form : forms)
      for (const PatternVariant& choice : choices) {
        PatternVariant& next = longer.emplace_back(form);
        next.root.parameters.push_back(choice.root);
        next.has_op.insert(next.has_op.end(), choice.has_op.begin(), choice.has_op.end());
      }
    forms = std::move(longer);
    if (forms.size() > kMostVariants)
      throw Error("pattern", pattern,
                  fmt::format("has more than {} forms; write several rows", kMostVariants));
  }
  for (size_t i = 0, count = forms.size(); term.in_either_order && i < count; ++i) {
    PatternVariant& swapped = forms.emplace_back(forms[i]);
    std::swap(swapped.root.parameters[0], swapped.root.parameters[1]);
  }
  if (!term.is_optional) return forms;
  for (PatternVariant& form : forms) form.has_op.insert(form.has_op.begin(), true);
  const size_t optional_ops = forms.front().has_op.size();
  for (PatternVariant& form : without) {
    form.has_op.insert(form.has_op.begin(), false);
    form.has_op.resize(optional_ops, false);
    forms.push_back(std::move(form));
  }
  return forms;
}

std::vector<PatternVariant> variants_of(const PatternTerm& root, const std::string& pattern) {
  std::vector<PatternVariant> forms = forms_of(root, pattern);
  std::ranges::stable_sort(forms, [](const PatternVariant& a, const PatternVariant& b) {
    return std::lexicographical_compare(b.has_op.rbegin(), b.has_op.rend(), a.has_op.rbegin(),
                                        a.has_op.rend());
  });
  return forms;
}

// ---- parser

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) { pattern_.text = std::string(text); }

  Pattern run() {
    skip_blanks();
    const PatternTerm root = term();
    skip_blanks();
    if (position_ < text_.size()) fail("nothing more");
    if (root.kind != PatternTerm::Kind::kCall)
      fail_at(0, "an op with its arguments in parentheses");
    if (root.is_list) fail_at(0, "a single op outermost");
    pattern_.variants = variants_of(root, pattern_.text);
    for (const PatternVariant& variant : pattern_.variants)
      if (variant.root.kind != PatternTerm::Kind::kCall) fail_at(0, "an op that is not optional");
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
      if (!opens_call(term)) fail("'(' and the arguments of the ops");
      call(term);
    } else {
      const std::string word = name();
      if (opens_call(term)) {
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
    else if (term.kind == PatternTerm::Kind::kCall && at() == '?')
      fail_at(start, "'?' before the arguments of an optional op, as in relu?(x)");
    else if (term.kind != PatternTerm::Kind::kCall && take("?"))
      term.is_optional = true;
    if (term.is_list && has_variants(term)) fail_at(start, "one form of each element of a list");
    if (term.kind != PatternTerm::Kind::kVariable) return;
    for (PatternVariable& known : pattern_.variables) {
      if (known.name != term.variable) continue;
      if (known.is_list != (term.is_list || list_depth_ > 0))
        fail_at(start, "the variable as a list everywhere or nowhere");
      known.is_optional = known.is_optional && (term.is_optional || optional_depth_ > 0);
      return;
    }
    pattern_.variables.push_back(
        {term.variable, term.is_optional || optional_depth_ > 0, term.is_list || list_depth_ > 0});
  }

  // "(", "[", "?(" or "?[" after the name of an op.
  bool opens_call(PatternTerm& term) {
    term.is_optional = take("?(") || take("?[");
    if (!term.is_optional && !take("(") && !take("[")) return false;
    term.in_either_order = text_[position_ - 1] == '[';
    return true;
  }

  static bool has_variants(const PatternTerm& term) {
    return term.kind == PatternTerm::Kind::kCall &&
           (term.is_optional || term.in_either_order ||
            std::ranges::any_of(term.parameters, has_variants));
  }

  static int nesting(char c) {
    if (c == '(' || c == '[') return 1;
    return c == ')' || c == ']' ? -1 : 0;
  }

  // Whether the call whose arguments start here is followed by "...": its variables bind lists
  // then.
  bool is_list_call() const {
    int depth = 1;
    size_t i = position_;
    for (; i < text_.size() && depth > 0; ++i) depth += nesting(text_[i]);
    while (i < text_.size() && std::isspace(static_cast<unsigned char>(text_[i])) != 0) ++i;
    return text_.substr(std::min(i, text_.size())).starts_with("...");
  }

  // The arguments after '(' or '['. Scales and zero points of q and dq need not be named.
  void call(PatternTerm& term) {
    term.kind = PatternTerm::Kind::kCall;
    term.ignores_rest = std::ranges::all_of(
        term.ops, [](const std::string& op) { return op.starts_with("quantized_decomposed."); });
    const bool is_list = is_list_call();
    list_depth_ += is_list ? 1 : 0;
    bool seen_optional = false;
    const char* const close = term.in_either_order ? "]" : ")";
    const size_t opened = position_ - 1;
    if (!take(close)) {
      do {
        if (take("...")) {
          term.ignores_rest = true;
          break;
        }
        skip_blanks();
        const size_t start = position_;
        const bool may_be_missing = term.is_optional && !term.parameters.empty();
        optional_depth_ += may_be_missing ? 1 : 0;
        const PatternTerm& parameter = term.parameters.emplace_back(this->term());
        optional_depth_ -= may_be_missing ? 1 : 0;
        const bool is_optional =
            parameter.is_optional && parameter.kind != PatternTerm::Kind::kCall;
        if (seen_optional && !is_optional)
          fail_at(start, "only optional arguments after an optional one");
        seen_optional = is_optional;
      } while (take(","));
      if (!take(close)) fail(fmt::format("',' or '{}'", close));
    }
    if (term.in_either_order && (term.parameters.size() != 2 || seen_optional))
      fail_at(opened, "two arguments in '[' and ']', neither of them optional");
    if (term.is_optional && (term.parameters.empty() || term.parameters.front().is_list ||
                             term.parameters.front().kind == PatternTerm::Kind::kAny))
      fail_at(opened, "an argument that takes the place of the optional op");
    list_depth_ -= is_list ? 1 : 0;
  }

  std::string_view text_;
  size_t position_ = 0;
  int list_depth_ = 0;
  int optional_depth_ = 0;  // calls that may be missing and that we are in an argument of
  Pattern pattern_;
};

}  // namespace

const PatternVariable* Pattern::find_variable(std::string_view name) const {
  const auto found = std::ranges::find_if(
      variables, [&](const PatternVariable& variable) { return variable.name == name; });
  return found == variables.end() ? nullptr : &*found;
}

Pattern parse_pattern(std::string_view text) { return PatternParser(text).run(); }

}  // namespace octet
