// Evaluates and prints formulas in postfix order with a stack.
//
// Example: a convolution with kernel 3, stride 2 and padding 1 on a width of s0 gives a width of
// (s0 - 1) // 2 + 1. The graph has the example's width, say 16 for s0 = 32, and this formula.
// specialize.h evaluates the formulas of a program for the sizes of a run.
#include "lowering/program/size_expr.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

using Kind = SizeExpr::Kind;
using Step = SizeExpr::Step;

bool is_operand(Kind kind) { return kind == Kind::kNumber || kind == Kind::kSymbol; }

// Rounds toward minus infinity, as Python's //.
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// Returns false on overflow of 64 bits and on division by zero.
bool apply(Kind kind, int64_t a, int64_t b, int64_t& result) {
  const bool divides = kind == Kind::kFloorDivide || kind == Kind::kModulo;
  if (divides && (b == 0 || (a == INT64_MIN && b == -1))) return false;
  switch (kind) {
    case Kind::kAdd: return !__builtin_add_overflow(a, b, &result);
    case Kind::kMultiply: return !__builtin_mul_overflow(a, b, &result);
    case Kind::kFloorDivide: result = floor_quotient(a, b); return true;
    case Kind::kModulo: result = a - b * floor_quotient(a, b); return true;
    case Kind::kMinimum: result = std::min(a, b); return true;
    case Kind::kMaximum: result = std::max(a, b); return true;
    default: break;
  }
  OCTET_ASSERT(false, "a size's operator");
}

[[noreturn]] void fail(const std::string& formula, const std::string& what) {
  throw Error("shape", formula, what + "; give other sizes, or lower the model again");
}

// The steps of a formula or a number.
std::vector<Step> steps_of(const SizeExpr& expr) {
  return expr.is_number() ? std::vector<Step>{{Kind::kNumber, expr.number(), ""}} : expr.steps();
}

// x + 0, x * 1, x // 1.
bool changes_nothing(Kind kind, const SizeExpr& b) {
  if (!b.is_number()) return false;
  return kind == Kind::kAdd
             ? b.number() == 0
             : (kind == Kind::kMultiply || kind == Kind::kFloorDivide) && b.number() == 1;
}

struct Printed {
  std::string text;
  bool is_compound = false;
};

Printed print(Kind kind, const Printed& a, const Printed& b) {
  const char* word = word_of(kind);
  if (kind == Kind::kMinimum || kind == Kind::kMaximum)
    return {fmt::format("{}({}, {})", word, a.text, b.text), false};
  const auto operand = [](const Printed& part) {
    return part.is_compound ? "(" + part.text + ")" : part.text;
  };
  if (kind == Kind::kAdd) return {fmt::format("{} + {}", a.text, operand(b)), true};
  return {fmt::format("{}{}{}", operand(a), word, operand(b)), true};
}

}  // namespace

const char* word_of(SizeExpr::Kind kind) {
  constexpr const char* kWords[] = {"", "", "+", "*", "//", "%", "min", "max"};
  return kWords[static_cast<size_t>(kind)];
}

SizeExpr SizeExpr::symbol(std::string name) {
  SizeExpr expr;
  expr.steps_.push_back({Kind::kSymbol, 0, std::move(name)});
  return expr;
}

SizeExpr SizeExpr::from_steps(std::vector<Step> steps) {
  if (steps.empty() || steps.size() > kMostSteps)
    throw Error("shape", "formula",
                fmt::format("has {} steps, want 1 to {}", steps.size(), kMostSteps));
  size_t depth = 0;
  for (const Step& step : steps) {
    if (!is_operand(step.kind) && depth < 2)
      throw Error("shape", "formula",
                  fmt::format("{} has {} operands, want 2", word_of(step.kind), depth));
    depth = is_operand(step.kind) ? depth + 1 : depth - 1;
  }
  if (depth != 1) throw Error("shape", "formula", fmt::format("gives {} numbers, want 1", depth));
  SizeExpr expr;
  expr.steps_ = std::move(steps);
  if (expr.symbols().empty()) return SizeExpr(expr.evaluate({}));
  return expr;
}

SizeExpr SizeExpr::join(Kind kind, const SizeExpr& a, const SizeExpr& b) {
  int64_t number = 0;
  if (a.is_number() && b.is_number() && apply(kind, a.number(), b.number(), number))
    return SizeExpr(number);
  if (changes_nothing(kind, b)) return a;
  if (changes_nothing(kind, a) && kind != Kind::kFloorDivide) return b;
  std::vector<Step> steps = steps_of(a);
  const std::vector<Step> second = steps_of(b);
  steps.insert(steps.end(), second.begin(), second.end());
  steps.push_back({kind, 0, ""});
  return from_steps(std::move(steps));
}

SizeExpr floor_divide(const SizeExpr& a, const SizeExpr& b) {
  return a == b ? SizeExpr(1) : SizeExpr::join(Kind::kFloorDivide, a, b);
}
SizeExpr maximum(const SizeExpr& a, const SizeExpr& b) {
  return a == b ? a : SizeExpr::join(Kind::kMaximum, a, b);
}
SizeExpr minimum(const SizeExpr& a, const SizeExpr& b) {
  return a == b ? a : SizeExpr::join(Kind::kMinimum, a, b);
}

std::set<std::string> SizeExpr::symbols() const {
  std::set<std::string> names;
  for (const Step& step : steps_)
    if (step.kind == Kind::kSymbol) names.insert(step.symbol);
  return names;
}

std::string SizeExpr::to_text() const {
  if (is_number()) return std::to_string(number_);
  std::vector<Printed> stack;
  for (const Step& step : steps_) {
    if (is_operand(step.kind)) {
      stack.push_back(
          {step.kind == Kind::kNumber ? std::to_string(step.number) : step.symbol, false});
      continue;
    }
    const Printed b = std::move(stack.back());
    stack.pop_back();
    stack.back() = print(step.kind, stack.back(), b);
  }
  return stack.back().text;
}

int64_t SizeExpr::evaluate(const SymbolValues& values) const {
  if (is_number()) return number_;
  std::vector<int64_t> stack;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNumber) {
      stack.push_back(step.number);
    } else if (step.kind == Kind::kSymbol) {
      const auto value = values.find(step.symbol);
      if (value == values.end())
        fail(to_text(), fmt::format("has the symbol {}, which has no value", step.symbol));
      stack.push_back(value->second);
    } else {
      const int64_t b = stack.back();
      stack.pop_back();
      const bool divides = step.kind == Kind::kFloorDivide || step.kind == Kind::kModulo;
      if (!apply(step.kind, stack.back(), b, stack.back()))
        fail(to_text(), divides && b == 0 ? "divides by zero" : "exceeds 64 bits");
    }
  }
  return stack.back();
}

SizeExpr SizeExpr::with(const std::map<std::string, SizeExpr>& formulas) const {
  if (is_number()) return *this;
  std::vector<SizeExpr> stack;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNumber) {
      stack.emplace_back(step.number);
    } else if (step.kind == Kind::kSymbol) {
      const auto formula = formulas.find(step.symbol);
      stack.push_back(formula == formulas.end() ? symbol(step.symbol) : formula->second);
    } else {
      const SizeExpr b = std::move(stack.back());
      stack.pop_back();
      stack.back() = join(step.kind, stack.back(), b);
    }
  }
  return stack.back();
}

bool is_symbolic(const std::vector<SizeExpr>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [](const SizeExpr& size) { return !size.is_number(); });
}

std::vector<int64_t> evaluate(const std::vector<SizeExpr>& sizes, const SymbolValues& values) {
  std::vector<int64_t> numbers;
  for (const SizeExpr& size : sizes) numbers.push_back(size.evaluate(values));
  return numbers;
}

}  // namespace octet
