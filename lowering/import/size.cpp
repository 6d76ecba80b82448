// Parses calls by recursive descent: name(argument, ...), where only Symbol and Integer take
// literals.
#include "lowering/import/size.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

using Kind = SizeExpr::Kind;

struct Function {
  std::string_view name;
  Kind kind;
};
constexpr Function kFunctions[] = {
    {"Add", Kind::kAdd},
    {"Mul", Kind::kMultiply},
    {"FloorDiv", Kind::kFloorDivide},
    {"CleanDiv", Kind::kFloorDivide},
    {"Mod", Kind::kModulo},
    {"PythonMod", Kind::kModulo},
    {"Max", Kind::kMaximum},
    {"Min", Kind::kMinimum},
};

constexpr int kDeepest = 64;
constexpr int64_t kHighestPower = 8;

class Parser {
 public:
  Parser(const std::string& text, const std::string& subject)
      : text_(text), rest_(text), subject_(subject) {}

  SizeExpr parse() {
    const SizeExpr size = expression(0);
    if (!rest_.empty()) fail("has text after its end");
    return size;
  }

 private:
  SizeExpr expression(int depth) {
    if (depth > kDeepest) fail(fmt::format("is nested deeper than {}", kDeepest));
    const std::string name(rest_.substr(0, rest_.find('(')));
    if (name.size() == rest_.size()) fail("is not a function call");
    rest_.remove_prefix(name.size() + 1);
    if (name == "Symbol") return symbol();
    if (name == "Integer") return integer();
    if (name == "Pow") return power(depth);
    for (const Function& function : kFunctions)
      if (name == function.name) return joined(function.kind, depth);
    fail(fmt::format(
        "has {}, want one of Add, Mul, FloorDiv, CleanDiv, Mod, PythonMod, Max, Min, Pow", name));
  }

  // Symbol('s0', positive=True, integer=True)
  SizeExpr symbol() {
    const size_t end = rest_.find('\'', 1), close = rest_.find(')');
    if (!rest_.starts_with('\'') || end == std::string_view::npos ||
        close == std::string_view::npos || close < end)
      fail("has a symbol without a name");
    const std::string name(rest_.substr(1, end - 1));
    rest_.remove_prefix(close + 1);
    return SizeExpr::symbol(name);
  }

  SizeExpr integer() {
    int64_t number = 0;
    const std::from_chars_result read =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (read.ec != std::errc()) fail("has an Integer that is not a number");
    rest_.remove_prefix(static_cast<size_t>(read.ptr - rest_.data()));
    take(')');
    return SizeExpr(number);
  }

  // Joins "a, b, ...)" from left to right.
  SizeExpr joined(Kind kind, int depth) {
    SizeExpr size = expression(depth + 1);
    while (rest_.starts_with(", ")) {
      rest_.remove_prefix(2);
      size = SizeExpr::join(kind, size, expression(depth + 1));
    }
    take(')');
    return size;
  }

  SizeExpr power(int depth) {
    const SizeExpr base = expression(depth + 1);
    take(',');
    take(' ');
    const SizeExpr exponent = expression(depth + 1);
    take(')');
    if (!exponent.is_number() || exponent.number() < 1 || exponent.number() > kHighestPower)
      fail("has an exponent that is not a small number");
    SizeExpr size = base;
    for (int64_t i = 1; i < exponent.number(); ++i) size = size * base;
    return size;
  }

  void take(char wanted) {
    if (!rest_.starts_with(wanted)) fail(fmt::format("lacks a '{}'", wanted));
    rest_.remove_prefix(1);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(
        "lower", subject_,
        fmt::format(
            "its size {} {}; export with a size that is computed in another way, or a fixed one",
            text_, what));
  }

  const std::string& text_;
  std::string_view rest_;
  const std::string& subject_;
};

}  // namespace

SizeExpr parse_size(const std::string& expression, const std::string& subject) {
  return Parser(expression, subject).parse();
}

}  // namespace octet
