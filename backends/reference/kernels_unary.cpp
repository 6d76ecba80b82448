// Functions of one operand: real ones, of integers exactly, and predicates.
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "lowering/program/real_functions.h"

namespace octet::reference {
namespace {

// On integers and bools that stand for themselves, without a way through reals.
struct WholeFunction {
  const char* name;
  int64_t (*value)(int64_t);
};

int64_t opposite(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }
int64_t same(int64_t x) { return x; }

constexpr WholeFunction kWholeFunctions[] = {
    {"bitwise_not", [](int64_t x) { return ~x; }},
    {"neg", opposite},
    {"abs", [](int64_t x) { return x < 0 ? opposite(x) : x; }},
    {"sign", [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }},
    {"square",
     [](int64_t x) {
       return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
     }},
    {"ceil", same},
    {"floor", same},
    {"round", same},
    {"trunc", same},
};

// To bool, from any dtype.
struct Predicate {
  const char* name;
  bool (*value)(double);
};
constexpr Predicate kPredicates[] = {
    {"logical_not", [](double x) { return x == 0; }},
    {"isnan", [](double x) { return std::isnan(x); }},
    {"isinf", [](double x) { return std::isinf(x); }},
    {"isfinite", [](double x) { return std::isfinite(x); }},
};

template <typename Row, size_t kCount>
const Row* find_row(const Row (&rows)[kCount], std::string_view name) {
  for (const Row& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

// Functions of float32 and narrower operands round once, to float.
template <typename T>
void map_real(const KernelCall& call, const RealFunction& function) {
  const double alpha = call.op.real("alpha", function.alpha),
               threshold = call.op.real("threshold", kSoftplusThreshold);
  const Reals<T> x(call.inputs[0], call.input(0));
  Buffer<T> y(x.size());
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<T>(
        function.value(static_cast<double>(x[static_cast<int64_t>(i)]), alpha, threshold));
  store<T>(call, y);
}

void unary(const KernelCall& call) {
  const std::string_view name = call.text("fn", "");
  if (const Predicate* predicate = find_row(kPredicates, name)) {
    const Reals<double> x = doubles(call, 0);
    Buffer<double> y(x.size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = predicate->value(x[static_cast<int64_t>(i)]);
    return store<double>(call, y);
  }
  const WholeFunction* whole = find_row(kWholeFunctions, name);
  if (whole != nullptr && is_all_whole(call)) {
    Buffer<int64_t> y = elements<int64_t>(call, 0);
    // not of true is false
    const bool is_not = call.input(0).dtype == DType::kBool && name == "bitwise_not";
    for (int64_t& value : y) value = is_not ? int64_t{value == 0} : whole->value(value);
    return store_elements<int64_t>(call, y);
  }
  const RealFunction& function = *find_real_function(name);
  call.input(0).dtype == DType::kFloat64 ? map_real<double>(call, function)
                                         : map_real<float>(call, function);
}

Verdict check_unary(const Program& program, const ProgramOp& op) {
  if (Verdict counts = check_counts(op, 1, 1); !counts) return counts;
  const std::string name = op.text("fn", "");
  const ProgramTensor& x = *find_input(program, op, 0);
  const ProgramTensor& y = program.output(op);
  if (find_row(kPredicates, name) != nullptr) {
    if (y.dtype != DType::kBool)
      return Verdict::refuse(
          fmt::format("{} gives bools, its output is {}", name, name_of(y.dtype)));
  } else if (find_real_function(name) == nullptr) {
    if (find_row(kWholeFunctions, name) == nullptr)
      return Verdict::refuse(fmt::format("unknown function \"{}\"", name));
    if (!is_whole(x) || !is_whole(y)) return Verdict::refuse(name + " wants integers or bools");
  }
  return check_output_shape(program, op, 0, x.shape);
}

constexpr KernelRow kUnaryKernels[] = {
    {"unary", unary, check_unary},
};

}  // namespace

std::span<const KernelRow> unary_kernels() { return kUnaryKernels; }

}  // namespace octet::reference
