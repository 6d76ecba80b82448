// Represents a size as a formula of shape symbols, as torch.export records it for a dimension that
// is not fixed. Needs no LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace octet {

using SymbolValues = std::map<std::string, int64_t>;

// Numbers and symbols combined by +, *, floor division, modulo, minimum and maximum, kept in
// postfix order: "(s0 - 1) // 2" is s0 -1 + 2 //.
class SizeExpr {
 public:
  enum class Kind { kNumber, kSymbol, kAdd, kMultiply, kFloorDivide, kModulo, kMinimum, kMaximum };
  struct Step {
    Kind kind = Kind::kNumber;
    int64_t number = 0;  // for kNumber
    std::string symbol;  // for kSymbol
    bool operator==(const Step&) const = default;
  };
  static constexpr size_t kMostSteps = 1024;

  SizeExpr(int64_t number = 0) : number_(number) {}
  static SizeExpr symbol(std::string name);
  // Throws Error if the steps are not a valid postfix formula (an operator without two operands,
  // operands left over, no steps) or are more than kMostSteps.
  static SizeExpr from_steps(std::vector<Step> steps);

  bool is_number() const { return steps_.empty(); }
  int64_t number() const { return number_; }                 // if is_number()
  const std::vector<Step>& steps() const { return steps_; }  // empty for a number
  std::set<std::string> symbols() const;
  // "s0", "2*(s0 + -1)", "(s0 + -1)//2", "max(1, s0)".
  std::string to_text() const;
  // Throws Error on a symbol without a value, division by zero, and values beyond 64 bits.
  int64_t evaluate(const SymbolValues& values) const;
  // Substitutes formulas for some of the symbols. Throws Error as join() does.
  SizeExpr with(const std::map<std::string, SizeExpr>& formulas) const;
  bool operator==(const SizeExpr&) const = default;

  // a (kind) b. Folds numbers. Throws Error if the result has more than kMostSteps.
  static SizeExpr join(Kind kind, const SizeExpr& a, const SizeExpr& b);

 private:
  int64_t number_ = 0;
  std::vector<Step> steps_;
};

inline SizeExpr operator+(const SizeExpr& a, const SizeExpr& b) {
  return SizeExpr::join(SizeExpr::Kind::kAdd, a, b);
}
inline SizeExpr operator*(const SizeExpr& a, const SizeExpr& b) {
  return SizeExpr::join(SizeExpr::Kind::kMultiply, a, b);
}
inline SizeExpr operator-(const SizeExpr& a, const SizeExpr& b) { return a + SizeExpr(-1) * b; }
SizeExpr floor_divide(const SizeExpr& a, const SizeExpr& b);
SizeExpr maximum(const SizeExpr& a, const SizeExpr& b);
SizeExpr minimum(const SizeExpr& a, const SizeExpr& b);

// The operator in files and text ("+", "*", "//", "%", "min", "max"); "" for numbers and symbols.
const char* word_of(SizeExpr::Kind kind);

// Whether any of the sizes depends on a symbol.
bool is_symbolic(const std::vector<SizeExpr>& sizes);
// Throws as evaluate does.
std::vector<int64_t> evaluate(const std::vector<SizeExpr>& sizes, const SymbolValues& values);

}  // namespace octet
