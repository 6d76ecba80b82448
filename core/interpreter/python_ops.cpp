// Implements the Python functions on numbers that exported graphs call, such as _operator.add.
#include "core/interpreter/special_ops.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/interpreter/ivalue_convert.h"

namespace octet {
namespace {

using c10::IValue;
using Arguments = std::vector<IValue>;

// A Python number. bool counts as int.
struct Number {
  bool is_float = false;
  int64_t integer = 0;
  double real = 0;  // also set for ints
};

[[noreturn]] void fail_run(const std::string& subject, const std::string& message) {
  throw Error("run", subject, message);
}

IValue scalar_of(const IValue& value, const std::string& subject) {
  if (!value.isTensor()) return value;
  if (!value.toTensor().defined() || value.toTensor().numel() != 1)
    fail_run(subject, fmt::format("got {}, want a number", describe(value)));
  return IValue(value.toTensor().item());
}

Number number(const Arguments& arguments, size_t index, const std::string& subject) {
  if (index >= arguments.size())
    fail_run(subject,
             fmt::format("got {} arguments, want at least {}", arguments.size(), index + 1));
  const IValue value = scalar_of(arguments[index], subject);
  if (value.isInt()) return {false, value.toInt(), static_cast<double>(value.toInt())};
  if (value.isBool()) return {false, value.toBool() ? 1 : 0, value.toBool() ? 1.0 : 0.0};
  if (value.isDouble()) return {true, 0, value.toDouble()};
  fail_run(subject, fmt::format("argument {} is {}, want a number", index, describe(value)));
}

int64_t integer(const Arguments& arguments, size_t index, const std::string& subject) {
  const Number value = number(arguments, index, subject);
  if (value.is_float) fail_run(subject, fmt::format("argument {} is a float, want an int", index));
  return value.integer;
}

int64_t to_integer(double value, const std::string& subject) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
    fail_run(subject, fmt::format("{} does not fit an int of 64 bits", value));
  return static_cast<int64_t>(value);
}

int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

void check_divisor(const Number& divisor, const std::string& subject) {
  if (divisor.real == 0)
    fail_run(subject, "division by zero; the input's shape or value does not fit the program");
}

// Integer arithmetic with an overflow check, or float arithmetic.
template <typename Overflows, typename Real>
IValue arithmetic(const Arguments& arguments, const std::string& subject, Overflows overflows,
                  Real real) {
  const Number a = number(arguments, 0, subject);
  const Number b = number(arguments, 1, subject);
  if (a.is_float || b.is_float) return IValue(real(a.real, b.real));
  int64_t result = 0;
  if (overflows(a.integer, b.integer, &result))
    fail_run(subject, "the result does not fit an int of 64 bits");
  return IValue(result);
}

using IntegerOp = bool (*)(int64_t, int64_t, int64_t*);
bool add_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
bool sub_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_sub_overflow(a, b, out); }
bool mul_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }

template <IntegerOp kOverflows, typename Real>
IValue arithmetic_of(const Arguments& arguments, const std::string& subject) {
  return arithmetic(arguments, subject, kOverflows, Real());
}
constexpr PythonOp add = arithmetic_of<add_overflows, std::plus<>>,
                   subtract = arithmetic_of<sub_overflows, std::minus<>>,
                   multiply = arithmetic_of<mul_overflows, std::multiplies<>>;

IValue floor_division(const Arguments& arguments, const std::string& subject) {
  check_divisor(number(arguments, 1, subject), subject);
  return arithmetic(
      arguments, subject,
      [](int64_t a, int64_t b, int64_t* out) {
        if (b == -1) return __builtin_sub_overflow(int64_t{0}, a, out);
        *out = floor_divide(a, b);
        return false;
      },
      [](double a, double b) { return std::floor((a - floor_mod(a, b)) / b + 0.5); });
}

IValue true_division(const Arguments& arguments, const std::string& subject) {
  const Number b = number(arguments, 1, subject);
  check_divisor(b, subject);
  return IValue(number(arguments, 0, subject).real / b.real);
}

IValue modulo(const Arguments& arguments, const std::string& subject) {
  check_divisor(number(arguments, 1, subject), subject);
  return arithmetic(
      arguments, subject,
      [](int64_t a, int64_t b, int64_t* out) {
        *out = b == -1 ? 0 : a - floor_divide(a, b) * b;
        return false;
      },
      floor_mod);
}

IValue power(const Arguments& arguments, const std::string& subject) {
  const Number a = number(arguments, 0, subject);
  const Number b = number(arguments, 1, subject);
  if (a.is_float || b.is_float || b.integer < 0) return IValue(std::pow(a.real, b.real));
  int64_t result = 1;
  if (a.integer == 0 || a.integer == 1) return IValue(b.integer == 0 ? int64_t{1} : a.integer);
  if (a.integer == -1) return IValue(b.integer % 2 == 0 ? int64_t{1} : int64_t{-1});
  for (int64_t i = 0; i < b.integer; ++i)
    if (__builtin_mul_overflow(result, a.integer, &result))
      fail_run(subject, "the result does not fit an int of 64 bits");
  return IValue(result);
}

template <typename Compare>
IValue compare(const Arguments& arguments, const std::string& subject) {
  const Number a = number(arguments, 0, subject);
  const Number b = number(arguments, 1, subject);
  return IValue(a.is_float || b.is_float ? Compare()(a.real, b.real)
                                         : Compare()(a.integer, b.integer));
}

IValue negate(const Arguments& arguments, const std::string& subject) {
  const Number a = number(arguments, 0, subject);
  return a.is_float ? IValue(-a.real) : subtract({IValue(int64_t{0}), IValue(a.integer)}, subject);
}
IValue positive(const Arguments& arguments, const std::string& subject) {
  const Number a = number(arguments, 0, subject);
  return a.is_float ? IValue(a.real) : IValue(a.integer);
}
IValue absolute(const Arguments& arguments, const std::string& subject) {
  const Number a = number(arguments, 0, subject);
  if (a.is_float) return IValue(std::fabs(a.real));
  return a.integer < 0 ? negate(arguments, subject) : IValue(a.integer);
}

// Bools stay bools under & and |, as in Python.
template <typename Operation>
IValue bitwise(const Arguments& arguments, const std::string& subject) {
  const int64_t result =
      Operation()(integer(arguments, 0, subject), integer(arguments, 1, subject));
  if (scalar_of(arguments[0], subject).isBool() && scalar_of(arguments[1], subject).isBool())
    return IValue(result != 0);
  return IValue(result);
}

int64_t shift_width(const Arguments& arguments, const std::string& subject) {
  const int64_t width = integer(arguments, 1, subject);
  if (width < 0) fail_run(subject, fmt::format("negative shift count {}", width));
  return width;
}
IValue shift_left(const Arguments& arguments, const std::string& subject) {
  const int64_t value = integer(arguments, 0, subject);
  const int64_t width = shift_width(arguments, subject);
  if (value == 0) return IValue(int64_t{0});
  if (width > 62) fail_run(subject, "the result does not fit an int of 64 bits");
  return multiply({IValue(value), IValue(int64_t{1} << width)}, subject);
}
IValue shift_right(const Arguments& arguments, const std::string& subject) {
  return IValue(integer(arguments, 0, subject) >>
                std::min<int64_t>(shift_width(arguments, subject), 63));
}

template <double (*kRound)(double)>
IValue rounded(const Arguments& arguments, const std::string& subject) {
  const Number a = number(arguments, 0, subject);
  return a.is_float ? IValue(to_integer(kRound(a.real), subject)) : IValue(a.integer);
}
// round(x) and round(x, digits): half to even.
IValue round(const Arguments& arguments, const std::string& subject) {
  if (arguments.size() < 2 || arguments[1].isNone())
    return rounded<std::nearbyint>(arguments, subject);
  const Number a = number(arguments, 0, subject);
  const double unit = std::pow(10.0, static_cast<double>(integer(arguments, 1, subject)));
  if (!a.is_float) return IValue(to_integer(std::nearbyint(a.real * unit) / unit, subject));
  return IValue(std::nearbyint(a.real * unit) / unit);
}

IValue to_float(const Arguments& arguments, const std::string& subject) {
  return IValue(number(arguments, 0, subject).real);
}
IValue logical_not(const Arguments& arguments, const std::string& subject) {
  return IValue(number(arguments, 0, subject).real == 0);
}
// kLargest: the larger of two numbers; else the smaller.
template <bool kLargest>
IValue extreme(const Arguments& arguments, const std::string& subject) {
  const auto choose = [](auto a, auto b) { return kLargest ? std::max(a, b) : std::min(a, b); };
  const Number a = number(arguments, 0, subject);
  const Number b = number(arguments, 1, subject);
  if (a.is_float || b.is_float) return IValue(choose(a.real, b.real));
  return IValue(choose(a.integer, b.integer));
}
IValue if_then_else(const Arguments& arguments, const std::string& subject) {
  if (arguments.size() != 3)
    fail_run(subject, fmt::format("got {} arguments, want 3", arguments.size()));
  return to_bool(arguments[0], subject) ? arguments[1] : arguments[2];
}

template <double (*kFunction)(double)>
IValue real_function(const Arguments& arguments, const std::string& subject) {
  return IValue(kFunction(number(arguments, 0, subject).real));
}

IValue get_item(const Arguments& arguments, const std::string& subject) {
  if (arguments.size() != 2 || !arguments[0].isList())
    fail_run(subject, "want a list and an index");
  const c10::ArrayRef<IValue> items = arguments[0].toListRef();
  int64_t index = integer(arguments, 1, subject);
  if (index < 0) index += static_cast<int64_t>(items.size());
  if (index < 0 || index >= static_cast<int64_t>(items.size()))
    fail_run(subject, fmt::format("index {} is outside of a list of {}", index, items.size()));
  return items[static_cast<size_t>(index)];
}

const std::unordered_map<std::string_view, PythonOp>& python_ops() {
  static const std::unordered_map<std::string_view, PythonOp> kOps = {
      {"_operator.add", add},
      {"_operator.sub", subtract},
      {"_operator.mul", multiply},
      {"_operator.floordiv", floor_division},
      {"_operator.truediv", true_division},
      {"_operator.mod", modulo},
      {"_operator.pow", power},
      {"_operator.eq", compare<std::equal_to<>>},
      {"_operator.ne", compare<std::not_equal_to<>>},
      {"_operator.lt", compare<std::less<>>},
      {"_operator.le", compare<std::less_equal<>>},
      {"_operator.gt", compare<std::greater<>>},
      {"_operator.ge", compare<std::greater_equal<>>},
      {"_operator.neg", negate},
      {"_operator.pos", positive},
      {"_operator.abs", absolute},
      {"_operator.and_", bitwise<std::bit_and<>>},
      {"_operator.or_", bitwise<std::bit_or<>>},
      {"_operator.xor", bitwise<std::bit_xor<>>},
      {"_operator.not_", logical_not},
      {"_operator.lshift", shift_left},
      {"_operator.rshift", shift_right},
      {"_operator.getitem", get_item},
      {"math.trunc", rounded<std::trunc>},
      {"math.floor", rounded<std::floor>},
      {"math.ceil", rounded<std::ceil>},
      {"math.sqrt", real_function<std::sqrt>},
      {"math.exp", real_function<std::exp>},
      {"math.log", real_function<std::log>},
      {"math.log2", real_function<std::log2>},
      {"math.sin", real_function<std::sin>},
      {"math.cos", real_function<std::cos>},
      {"math.tan", real_function<std::tan>},
      {"math.tanh", real_function<std::tanh>},
      {"builtins.round", round},
      {"builtins.max", extreme<true>},
      {"builtins.min", extreme<false>},
      {"builtins.abs", absolute},
      {"torch.sym_max", extreme<true>},
      {"torch.sym_min", extreme<false>},
      {"torch.sym_not", logical_not},
      {"torch.sym_float", to_float},
      {"torch.sym_int", rounded<std::trunc>},
      {"torch.sym_ite", if_then_else},
      {"torch.sym_sqrt", real_function<std::sqrt>},
      {"torch._sym_sqrt", real_function<std::sqrt>},
      {"torch._sym_log2", real_function<std::log2>},
      {"torch._sym_cos", real_function<std::cos>},
      {"torch._sym_sin", real_function<std::sin>},
      {"torch._sym_tan", real_function<std::tan>},
  };
  return kOps;
}

}  // namespace

PythonOp find_python_op(std::string_view target) {
  const auto found = python_ops().find(target);
  return found == python_ops().end() ? nullptr : found->second;
}

}  // namespace octet
