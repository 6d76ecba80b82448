// Ops with two operands (three for `where` and `rotary`) that broadcast to the output: arithmetic,
// comparisons, logic, bits. If operands and output are bools or integers without qparams,
// everything is computed in int64 with wrapping overflow; else in reals.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "core/base/error.h"

namespace octet::reference {
namespace {

// Locates the rows of an operand along the output's last dimension, and the stride within them.
class RowWalk {
 public:
  RowWalk(const std::vector<int64_t>& operand, const std::vector<int64_t>& shape)
      : RowWalk(shape, broadcast_strides(operand, shape)) {}
  int64_t offset() const { return rows_.offset(); }
  int64_t step() const { return step_; }
  void next() { rows_.next(); }

 private:
  RowWalk(const std::vector<int64_t>& shape, const Sizes& strides)
      : rows_({shape.data(), shape.size() - (shape.empty() ? 0 : 1)},
              Sizes(strides.begin(), strides.end() - (shape.empty() ? 0 : 1))),
        step_(shape.empty() ? 0 : strides.back()) {}

  StridedWalk rows_;
  int64_t step_;
};

size_t row_width(const std::vector<int64_t>& shape) {
  return shape.empty() ? 1 : static_cast<size_t>(shape.back());
}

// Calls function(element of a, element of b) for each output element.
template <typename T, typename A, typename B, typename Function>
Buffer<T> map_pairs(const KernelCall& call, const A& a, const B& b, const Function& function) {
  const std::vector<int64_t>& shape = call.output_shape();
  Buffer<T> y(static_cast<size_t>(call.outputs[0].numel()));
  if (call.input_shape(0) == shape && call.input_shape(1) == shape) {
    for (size_t i = 0; i < y.size(); ++i) y[i] = function(a.data()[i], b.data()[i]);
    return y;
  }
  RowWalk walk_a(call.input_shape(0), shape), walk_b(call.input_shape(1), shape);
  const size_t width = row_width(shape);
  for (size_t first = 0; first < y.size(); first += width, walk_a.next(), walk_b.next()) {
    const auto* row_a = a.data() + walk_a.offset();
    const auto* row_b = b.data() + walk_b.offset();
    for (size_t i = 0; i < width; ++i, row_a += walk_a.step(), row_b += walk_b.step())
      y[first + i] = function(*row_a, *row_b);
  }
  return y;
}

template <typename Function>
void map_reals(const KernelCall& call, const Function& function) {
  store<double>(call, map_pairs<double>(call, doubles(call, 0), doubles(call, 1), function));
}
template <typename Function>
void map_whole(const KernelCall& call, const Function& function) {
  store_elements<int64_t>(call, map_pairs<int64_t>(call, elements<int64_t>(call, 0),
                                                   elements<int64_t>(call, 1), function));
}

uint64_t bits_of(int64_t value) { return static_cast<uint64_t>(value); }
int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(bits_of(a) * bits_of(b));
}

// ---- add, sub, mul, div, minimum, maximum

void add_scaled(const KernelCall& call, int64_t sign) {
  const double alpha = call.op.get(attr::kAlpha);
  if (is_all_whole(call) && alpha == std::trunc(alpha) && std::fabs(alpha) < 9e18) {
    const uint64_t factor = bits_of(least_integer(call.op, attr::kAlpha, 1)) * bits_of(sign);
    return map_whole(call, [factor](int64_t a, int64_t b) {
      return static_cast<int64_t>(bits_of(a) + factor * bits_of(b));
    });
  }
  const double factor = alpha * static_cast<double>(sign);
  map_reals(call, [factor](double a, double b) { return a + factor * b; });
}

void add(const KernelCall& call) { add_scaled(call, 1); }
void sub(const KernelCall& call) { add_scaled(call, -1); }
void mul(const KernelCall& call) {
  if (is_all_whole(call)) return map_whole(call, wrapping_product);
  map_reals(call, [](double a, double b) { return a * b; });
}
void div(const KernelCall& call) {
  map_reals(call, [](double a, double b) { return a / b; });
}
void minimum(const KernelCall& call) {
  if (is_all_whole(call))
    return map_whole(call, [](int64_t a, int64_t b) { return std::min(a, b); });
  map_reals(call, lesser);
}
void maximum(const KernelCall& call) {
  if (is_all_whole(call))
    return map_whole(call, [](int64_t a, int64_t b) { return std::max(a, b); });
  map_reals(call, greater);
}

// ---- where

template <typename Operand>
auto choose(const KernelCall& call, const Operand& a, const Operand& b) {
  using T = std::decay_t<decltype(a.data()[0])>;
  const std::vector<int64_t>& shape = call.output_shape();
  const Reals<float> condition = floats(call, 0);
  RowWalk walk_c(call.input_shape(0), shape), walk_a(call.input_shape(1), shape),
      walk_b(call.input_shape(2), shape);
  Buffer<T> y(static_cast<size_t>(call.outputs[0].numel()));
  const size_t width = row_width(shape);
  for (size_t first = 0; first < y.size(); first += width) {
    const float* row_c = condition.data() + walk_c.offset();
    const T* row_a = a.data() + walk_a.offset();
    const T* row_b = b.data() + walk_b.offset();
    for (size_t i = 0; i < width; ++i) {
      y[first + i] = *row_c != 0 ? *row_a : *row_b;
      row_c += walk_c.step();
      row_a += walk_a.step();
      row_b += walk_b.step();
    }
    for (RowWalk* walk : {&walk_c, &walk_a, &walk_b}) walk->next();
  }
  return y;
}

void where(const KernelCall& call) {
  if (is_all_whole(call, 1))
    return store_elements<int64_t>(
        call, choose(call, elements<int64_t>(call, 1), elements<int64_t>(call, 2)));
  if (call.input(1).dtype == DType::kFloat32 && call.input(2).dtype == DType::kFloat32)
    return store<float>(call, choose(call, floats(call, 1), floats(call, 2)));
  store<double>(call, choose(call, doubles(call, 1), doubles(call, 2)));
}

// ---- binary: integers

// Divisors are not 0. -1 is special: the least integer cannot be negated.
int64_t quotient(int64_t a, int64_t b) {
  return b == -1 ? static_cast<int64_t>(0 - bits_of(a)) : a / b;
}
int64_t rest(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
int64_t floor_rest(int64_t a, int64_t b) {
  const int64_t r = rest(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t r = rest(a, b);
  return quotient(a, b) - (r != 0 && (r < 0) != (b < 0) ? 1 : 0);
}

int64_t whole_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  int64_t power = 1;
  for (; exponent > 0; exponent /= 2, base = wrapping_product(base, base))
    if (exponent % 2 != 0) power = wrapping_product(power, base);
  return power;
}

int64_t shift_left(int64_t a, int64_t b) {
  return b < 0 || b >= 64 ? 0 : static_cast<int64_t>(bits_of(a) << b);
}
int64_t shift_right(int64_t a, int64_t b) { return a >> (b < 0 || b >= 64 ? 63 : b); }

// ---- binary: reals, in the operands' precision

template <typename T>
T real_remainder(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Subtracting the remainder first makes the quotient whole up to rounding.
template <typename T>
T real_floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T r = std::fmod(a, b);
  T whole = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) whole -= 1;
  if (whole == 0) return std::copysign(T{0}, a / b);
  const T floored = std::floor(whole);
  return whole - floored > T{0.5} ? floored + 1 : floored;
}

enum class Result { kBool, kAny };
struct BinaryRow {
  const char* name;
  Result result;
  int64_t (*whole)(int64_t, int64_t);
  float (*single)(float, float);  // null: integers only
  double (*real)(double, double);
};

// Expands an expression in a and b for every type.
#define OCTET_FOR_ALL_TYPES(expression)                                  \
  [](int64_t a, int64_t b) { return static_cast<int64_t>(expression); }, \
      [](float a, float b) { return static_cast<float>(expression); },   \
      [](double a, double b) { return static_cast<double>(expression); }
#define OCTET_FOR_REALS(function)                           \
  [](float a, float b) -> float { return function(a, b); }, \
      [](double a, double b) -> double { return function(a, b); }

// clang-format off
constexpr BinaryRow kBinaryRows[] = {
    {"eq",          Result::kBool, OCTET_FOR_ALL_TYPES(a == b)},
    {"ne",          Result::kBool, OCTET_FOR_ALL_TYPES(a != b)},
    {"lt",          Result::kBool, OCTET_FOR_ALL_TYPES(a < b)},
    {"le",          Result::kBool, OCTET_FOR_ALL_TYPES(a <= b)},
    {"gt",          Result::kBool, OCTET_FOR_ALL_TYPES(a > b)},
    {"ge",          Result::kBool, OCTET_FOR_ALL_TYPES(a >= b)},
    {"logical_and", Result::kBool, OCTET_FOR_ALL_TYPES(a != 0 && b != 0)},
    {"logical_or",  Result::kBool, OCTET_FOR_ALL_TYPES(a != 0 || b != 0)},
    {"logical_xor", Result::kBool, OCTET_FOR_ALL_TYPES((a != 0) != (b != 0))},
    {"bitwise_and", Result::kAny,  [](int64_t a, int64_t b) { return a & b; }, nullptr, nullptr},
    {"bitwise_or",  Result::kAny,  [](int64_t a, int64_t b) { return a | b; }, nullptr, nullptr},
    {"bitwise_xor", Result::kAny,  [](int64_t a, int64_t b) { return a ^ b; }, nullptr, nullptr},
    {"left_shift",  Result::kAny,  shift_left, nullptr, nullptr},
    {"right_shift", Result::kAny,  shift_right, nullptr, nullptr},
    {"pow",         Result::kAny,  whole_power, OCTET_FOR_REALS(std::pow)},
    {"remainder",   Result::kAny,  floor_rest, OCTET_FOR_REALS(real_remainder)},
    {"fmod",        Result::kAny,  rest, OCTET_FOR_REALS(std::fmod)},
    {"div_floor",   Result::kAny,  floor_quotient, OCTET_FOR_REALS(real_floor_quotient)},
    {"div_trunc",   Result::kAny,  quotient,
     [](float a, float b) { return std::trunc(a / b); },
     [](double a, double b) { return std::trunc(a / b); }},
    {"atan2",       Result::kAny,  nullptr, OCTET_FOR_REALS(std::atan2)},
};
// clang-format on
#undef OCTET_FOR_ALL_TYPES
#undef OCTET_FOR_REALS

const BinaryRow* find_binary_row(std::string_view name) {
  for (const BinaryRow& row : kBinaryRows)
    if (name == row.name) return &row;
  return nullptr;
}

bool divides(const BinaryRow& row) {
  return row.whole == quotient || row.whole == rest || row.whole == floor_quotient ||
         row.whole == floor_rest;
}

void refuse_zeros(const KernelCall& call) {
  const Buffer<int64_t> divisors = elements<int64_t>(call, 1);
  if (std::find(divisors.begin(), divisors.end(), 0) != divisors.end())
    throw Error("run", call.op.name, "divides an integer by zero; check the input");
}

void binary(const KernelCall& call) {
  const BinaryRow& row = *find_binary_row(call.op.get(attr::kFn));
  if (row.whole != nullptr && is_all_whole(call)) {
    if (divides(row)) refuse_zeros(call);
    return map_whole(call, row.whole);
  }
  if (call.input(0).dtype == DType::kFloat64 || call.input(1).dtype == DType::kFloat64)
    return map_reals(call, row.real);
  const auto single = [&row](float a, float b) { return row.single(a, b); };
  store<float>(call, map_pairs<float>(call, floats(call, 0), floats(call, 1), single));
}

// x * cosine + (-second half of x, first half of x) * sine, by halves of the last dimension.
template <typename T>
void rotary(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.output_shape();
  const Reals<T> x = reals_of<T>(call, 0), cosine = reals_of<T>(call, 1),
                 sine = reals_of<T>(call, 2);
  StridedWalk walk_cosine(shape, broadcast_strides(call.input_shape(1), shape));
  StridedWalk walk_sine(shape, broadcast_strides(call.input_shape(2), shape));
  const int64_t width = shape.back(), half = width / 2;
  Buffer<double> y(x.size());
  for (int64_t i = 0; i < std::ssize(y); ++i) {
    const bool is_first = i % width < half;
    const double turned = is_first ? -double{x[i + half]} : double{x[i - half]};
    y[static_cast<size_t>(i)] = double{x[i]} * double{cosine.data()[walk_cosine.offset()]} +
                                turned * double{sine.data()[walk_sine.offset()]};
    walk_cosine.next();
    walk_sine.next();
  }
  store<double>(call, y);
}

// ---- checks

Verdict check_broadcast(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& y = program.tensor(op.outputs[0]).shape;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::vector<int64_t>& x = find_input(program, op, i)->shape;
    if (!is_broadcastable(x, y))
      return Verdict::refuse(
          fmt::format("input {} does not broadcast to {}", shape_text(x), shape_text(y)));
  }
  return Verdict::accept();
}

Verdict check_rotary(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_broadcast(program, op); !shapes) return shapes;
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  if (x != program.output(op).shape || x.empty() || x.back() % 2 != 0)
    return Verdict::refuse(
        fmt::format("input {}, want the output's shape and an even width", shape_text(x)));
  return Verdict::accept();
}

Verdict check_binary(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_broadcast(program, op); !shapes) return shapes;
  const std::string name = op.get(attr::kFn);
  const BinaryRow* row = find_binary_row(name);
  const ProgramTensor& y = program.output(op);
  if (row->result == Result::kBool && y.dtype != DType::kBool)
    return Verdict::refuse(
        fmt::format("{} returns bools, but its output is {}", name, name_of(y.dtype)));
  if (row->single == nullptr && !(is_whole(*find_input(program, op, 0)) &&
                                  is_whole(*find_input(program, op, 1)) && is_whole(y)))
    return Verdict::refuse(name + " wants integers or bools");
  return Verdict::accept();
}

constexpr KernelRow kBinaryKernels[] = {
    {"add", add, check_broadcast},
    {"sub", sub, check_broadcast},
    {"mul", mul, check_broadcast},
    {"div", div, check_broadcast},
    {"minimum", minimum, check_broadcast},
    {"maximum", maximum, check_broadcast},
    {"where", where, check_broadcast},
    {"rotary", by_precision<rotary<float>, rotary<double>>, check_rotary},
    {"binary", binary, check_binary},
};

}  // namespace

std::span<const KernelRow> binary_kernels() { return kBinaryKernels; }

}  // namespace octet::reference
