// Functions of two and three tensors' elements: arithmetic, comparisons, choices.
#include "tools/onnx/steps.h"

namespace octet {
namespace {

struct Operands {
  std::string a, b;
};

const char* second_name(const OnnxSteps& s) {
  return s.node.find_argument("exponent") != nullptr ? "exponent" : "other";
}
const char* first_name(const OnnxSteps& s) {
  return s.node.find_argument("self") != nullptr ? "self" : "input";
}

// Both in the result's dtype.
Operands operands(OnnxSteps& s) {
  const DType dtype = s.dtype(s.result());
  return {s.operand(first_name(s), dtype), s.operand(second_name(s), dtype)};
}

// other * alpha
std::string scaled_other(OnnxSteps& s, const std::string& other) {
  const double alpha = s.node.float_or("alpha", 1);
  return alpha == 1 ? other : s.mul(other, s.number(alpha));
}

void convert_add(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.op(s.dtype(s.result()) == DType::kBool ? "Or" : "Add", {o.a, scaled_other(s, o.b)}));
}
void convert_sub(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.sub(o.a, scaled_other(s, o.b)));
}
void convert_rsub(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.sub(o.b, scaled_other(s, o.a)));
}
void convert_mul(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.op(s.dtype(s.result()) == DType::kBool ? "And" : "Mul", {o.a, o.b}));
}

std::string floor_divided(OnnxSteps& s, const Operands& o) {
  if (is_floating_point(s.dtype(s.result()))) return s.op("Floor", {s.div(o.a, o.b)});
  return s.div(s.sub(o.a, s.op("Mod", {o.a, o.b})), o.b);
}

void convert_div(OnnxSteps& s) {
  const Operands o = operands(s);
  const std::string rounding = s.text("rounding_mode");
  if (rounding == "floor") return s.give(floor_divided(s, o));
  const std::string quotient = s.div(o.a, o.b);
  if (rounding.empty() || !is_floating_point(s.dtype(s.result()))) return s.give(quotient);
  s.give(s.mul(s.op("Sign", {quotient}), s.op("Floor", {s.op("Abs", {quotient})})));
}
void convert_floor_divide(OnnxSteps& s) { s.give(floor_divided(s, operands(s))); }

void convert_remainder(OnnxSteps& s) {
  const Operands o = operands(s);
  if (!is_floating_point(s.dtype(s.result()))) return s.give(s.op("Mod", {o.a, o.b}));
  s.give(s.sub(o.a, s.mul(s.op("Floor", {s.div(o.a, o.b)}), o.b)));
}
void convert_fmod(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.op("Mod", {o.a, o.b}, {{"fmod", int64_t{1}}}));
}
void convert_pow(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.op("Pow", {o.a, o.b}));
}
void convert_maximum(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.op("Max", {o.a, o.b}));
}
void convert_minimum(OnnxSteps& s) {
  const Operands o = operands(s);
  s.give(s.op("Min", {o.a, o.b}));
}

// ---- comparisons and logic

// What torch compares two operands as.
DType common_dtype(const OnnxSteps& s) {
  const Value* a = s.node.find_input(first_name(s));
  const Value* b = s.node.find_input("other");
  const bool has_b = b != nullptr && b->kind() == ValueKind::kTensor;
  const DType left = s.dtype(a);
  if (!has_b) {
    const Argument* other = s.node.find_argument("other");
    const bool is_real = other != nullptr && other->find<double>() != nullptr;
    if (is_real && !is_floating_point(left)) return DType::kFloat32;
    return left == DType::kBool ? DType::kInt64 : left;
  }
  const DType right = s.dtype(b);
  if (left == right) return left;
  if (is_floating_point(left) != is_floating_point(right))
    return is_floating_point(left) ? left : right;
  if (left == DType::kBool) return right;
  if (right == DType::kBool) return left;
  return size_of(left) >= size_of(right) ? left : right;
}

Operands compared(OnnxSteps& s) {
  const DType dtype = common_dtype(s);
  return {s.operand(first_name(s), dtype), s.operand("other", dtype)};
}

void give_comparison(OnnxSteps& s, const char* type) {
  const Operands o = compared(s);
  s.give(s.op(type, {o.a, o.b}));
}
void convert_eq(OnnxSteps& s) { give_comparison(s, "Equal"); }
void convert_ne(OnnxSteps& s) {
  const Operands o = compared(s);
  s.give(s.op("Not", {s.op("Equal", {o.a, o.b})}));
}
// Booleans have an order in torch alone.
void give_order(OnnxSteps& s, const char* type) {
  const DType dtype = common_dtype(s) == DType::kBool ? DType::kInt32 : common_dtype(s);
  const std::string a = s.operand(first_name(s), dtype), b = s.operand("other", dtype);
  s.give(s.op(type, {a, b}));
}
void convert_lt(OnnxSteps& s) { give_order(s, "Less"); }
void convert_le(OnnxSteps& s) { give_order(s, "LessOrEqual"); }
void convert_gt(OnnxSteps& s) { give_order(s, "Greater"); }
void convert_ge(OnnxSteps& s) { give_order(s, "GreaterOrEqual"); }

void give_logic(OnnxSteps& s, const char* type) {
  const std::string a = s.operand(first_name(s), DType::kBool),
                    b = s.operand("other", DType::kBool);
  s.give(s.op(type, {a, b}));
}
void convert_logical_and(OnnxSteps& s) { give_logic(s, "And"); }
void convert_logical_or(OnnxSteps& s) { give_logic(s, "Or"); }
void convert_logical_xor(OnnxSteps& s) { give_logic(s, "Xor"); }

void give_bits(OnnxSteps& s, const char* logic, const char* bits) {
  if (s.dtype(s.result()) == DType::kBool) return give_logic(s, logic);
  const Operands o = operands(s);
  if (s.exporter.need(s.node, 18, "operators of bits")) s.give(s.op(bits, {o.a, o.b}));
}
void convert_bitwise_and(OnnxSteps& s) { give_bits(s, "And", "BitwiseAnd"); }
void convert_bitwise_or(OnnxSteps& s) { give_bits(s, "Or", "BitwiseOr"); }
void convert_bitwise_xor(OnnxSteps& s) { give_bits(s, "Xor", "BitwiseXor"); }

// ---- choices

void convert_where(OnnxSteps& s) {
  const DType dtype = s.dtype(s.result());
  const std::string condition = s.operand("condition", DType::kBool);
  const std::string a = s.operand("self", dtype), b = s.operand("other", dtype);
  if (a.empty() || b.empty()) return s.refuse("that gives the places of true elements");
  s.give(s.op("Where", {condition, a, b}));
}
void convert_masked_fill(OnnxSteps& s) {
  const DType dtype = s.dtype(s.result());
  const std::string x = s.cast(s.self(), dtype), value = s.operand("value", dtype);
  s.give(s.op("Where", {s.operand("mask", DType::kBool), value, x}));
}

// ---- three operands

void give_addc(OnnxSteps& s, const char* type) {
  const DType dtype = s.dtype(s.result());
  const double factor = s.node.float_or("value", 1);
  std::string y = s.op(type, {s.operand("tensor1", dtype), s.operand("tensor2", dtype)});
  if (factor != 1) y = s.mul(y, s.number(factor));
  s.give(s.add(s.operand("self", dtype), y));
}
void convert_addcmul(OnnxSteps& s) { give_addc(s, "Mul"); }
void convert_addcdiv(OnnxSteps& s) { give_addc(s, "Div"); }
void convert_lerp(OnnxSteps& s) {
  const DType dtype = s.dtype(s.result());
  const std::string start = s.operand("self", dtype);
  const std::string way = s.sub(s.operand("end", dtype), start);
  s.give(s.add(start, s.mul(s.operand("weight", dtype), way)));
}

constexpr OnnxRow kArithmeticRows[] = {
    {"aten.add", convert_add},
    {"aten.sub", convert_sub},
    {"aten.subtract", convert_sub},
    {"aten.rsub", convert_rsub},
    {"aten.mul", convert_mul},
    {"aten.multiply", convert_mul},
    {"aten.div", convert_div},
    {"aten.divide", convert_div},
    {"aten.true_divide", convert_div},
    {"aten.floor_divide", convert_floor_divide},
    {"aten.remainder", convert_remainder},
    {"aten.fmod", convert_fmod},
    {"aten.pow", convert_pow},
    {"aten.maximum", convert_maximum},
    {"aten.minimum", convert_minimum},
    {"aten.eq", convert_eq},
    {"aten.ne", convert_ne},
    {"aten.not_equal", convert_ne},
    {"aten.lt", convert_lt},
    {"aten.less", convert_lt},
    {"aten.le", convert_le},
    {"aten.less_equal", convert_le},
    {"aten.gt", convert_gt},
    {"aten.greater", convert_gt},
    {"aten.ge", convert_ge},
    {"aten.greater_equal", convert_ge},
    {"aten.logical_and", convert_logical_and},
    {"aten.logical_or", convert_logical_or},
    {"aten.logical_xor", convert_logical_xor},
    {"aten.bitwise_and", convert_bitwise_and},
    {"aten.bitwise_or", convert_bitwise_or},
    {"aten.bitwise_xor", convert_bitwise_xor},
    {"aten.__and__", convert_bitwise_and},
    {"aten.__or__", convert_bitwise_or},
    {"aten.__xor__", convert_bitwise_xor},
    {"aten.where", convert_where},
    {"aten.masked_fill", convert_masked_fill},
    {"aten.addcmul", convert_addcmul},
    {"aten.addcdiv", convert_addcdiv},
    {"aten.lerp", convert_lerp},
};

}  // namespace

std::span<const OnnxRow> arithmetic_onnx_rows() { return kArithmeticRows; }

}  // namespace octet
