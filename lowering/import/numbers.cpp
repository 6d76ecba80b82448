// Imports numbers that a graph computes from sizes and that an op or a condition reads. They become
// 0-dimensional tensors of i64, f64 or bool. A size that the inputs' shapes decide becomes the op
// `size`; other numbers follow from the nodes that compute them.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// Maps a node that computes with numbers to a Program op. The op computes in i64 if all operands
// and the result are i64, else in f64, and in bool for `logical_*`.
struct NumberRow {
  std::string_view op;
  const char* kind;      // a kind of Program op; "": the operand itself
  const char* function;  // for unary and binary
};

constexpr NumberRow kNumberRows[] = {
    {"_operator.add", "add", ""},
    {"_operator.sub", "sub", ""},
    {"_operator.mul", "mul", ""},
    {"_operator.truediv", "div", ""},
    {"torch.sym_max", "maximum", ""},
    {"torch.sym_min", "minimum", ""},
    {"_operator.floordiv", "binary", "div_floor"},
    {"_operator.mod", "binary", "remainder"},
    {"_operator.pow", "binary", "pow"},
    {"_operator.eq", "binary", "eq"},
    {"_operator.ne", "binary", "ne"},
    {"_operator.lt", "binary", "lt"},
    {"_operator.le", "binary", "le"},
    {"_operator.gt", "binary", "gt"},
    {"_operator.ge", "binary", "ge"},
    {"_operator.and_", "binary", "logical_and"},
    {"_operator.or_", "binary", "logical_or"},
    {"_operator.xor", "binary", "logical_xor"},
    {"_operator.not_", "unary", "logical_not"},
    {"torch.sym_not", "unary", "logical_not"},
    {"_operator.neg", "unary", "neg"},
    {"_operator.abs", "unary", "abs"},
    {"math.trunc", "unary", "trunc"},
    {"torch.sym_int", "unary", "trunc"},
    {"math.floor", "unary", "floor"},
    {"math.ceil", "unary", "ceil"},
    {"math.sqrt", "unary", "sqrt"},
    {"torch.sym_sqrt", "unary", "sqrt"},
    {"math.exp", "unary", "exp"},
    {"math.log", "unary", "log"},
    {"math.log2", "unary", "log2"},
    {"torch.sym_float", "", ""},
    {"_operator.pos", "", ""},
};

const NumberRow* find_number_row(const Node& node) {
  const auto found = std::find_if(std::begin(kNumberRows), std::end(kNumberRows),
                                  [&](const NumberRow& row) { return node.target() == row.op; });
  return found == std::end(kNumberRows) ? nullptr : &*found;
}

// The tensor of an argument; -1 if it is not a number.
int number_argument(Steps& s, const Node& node, size_t index) {
  if (index >= node.arguments().size()) return -1;
  const Argument& argument = node.arguments()[index].value;
  if (Value* value = argument.value_or_null()) return s.number_of(value);
  if (const int64_t* number = argument.find<int64_t>())
    return s.add_constant(node.name() + "_number",
                          Tensor::from<int64_t>(DType::kInt64, {}, std::span(number, 1)));
  if (const SymIntLiteral* number = argument.find<SymIntLiteral>())
    return s.add_constant(node.name() + "_number",
                          Tensor::from<int64_t>(DType::kInt64, {}, std::span(&number->value, 1)));
  if (const bool* flag = argument.find<bool>()) return s.filled(DType::kBool, {}, *flag ? 1 : 0);
  if (const double* number = argument.find<double>()) return s.filled(DType::kFloat64, {}, *number);
  if (const SymFloatLiteral* number = argument.find<SymFloatLiteral>())
    return s.filled(DType::kFloat64, {}, number->value);
  return -1;
}

int compute_number(Steps& s, const Node& node, const NumberRow& row, DType wanted) {
  const std::string_view kind = row.kind, function = row.function;
  const size_t count = kind == "" || kind == "unary" ? 1 : 2;
  std::vector<int> operands;
  for (size_t i = 0; i < count; ++i) operands.push_back(number_argument(s, node, i));
  if (std::count(operands.begin(), operands.end(), -1) != 0) return -1;
  const bool is_logical = function.starts_with("logical_");
  const bool is_whole =
      wanted != DType::kFloat64 && std::all_of(operands.begin(), operands.end(), [&](int operand) {
        return !is_floating_point(s.dtype(operand));
      });
  const DType common = is_logical ? DType::kBool : is_whole ? DType::kInt64 : DType::kFloat64;
  for (int& operand : operands) operand = s.cast(operand, common);
  if (kind == "") return s.cast(operands[0], wanted);
  Attributes attributes;
  if (!function.empty()) attributes[attr::kFn] = std::string(function);
  const DType made = wanted == DType::kBool ? wanted : common;
  return s.cast(s.op(row.kind, std::move(operands), {}, made, std::move(attributes)), wanted);
}

// Returns -1 if no op computes the number.
int make_number(Importer& importer, const Node& user, Value* value) {
  const Node& node = value->producer() == nullptr ? user : *value->producer();
  Steps s(importer, node);
  const NumberRow* row = value->producer() == nullptr ? nullptr : find_number_row(node);
  // rounding ops have real operands, which formulas cannot express
  const bool has_formula = row == nullptr || std::string_view(row->kind) != "unary";
  if (has_formula && s.size_table().has_formula(*value))
    return s.size(s.size_table().formula_of(value->symbol, *value));
  if (row != nullptr) return compute_number(s, node, *row, dtype_of_number(value->kind()));
  if (value->producer() == nullptr) return -1;
  Value* self = node.find_input("self");
  if (self == nullptr || !is_item(node)) return -1;
  return s.cast(s.reshape(s.tensor_of(self), Sizes{}), dtype_of_number(value->kind()));
}

}  // namespace

int Steps::number_of(Value* value) {
  if (const int found = builder().find_number(value); found >= 0) return found;
  int number = make_number(importer_, node_, value);
  if (number < 0) {
    refuse(fmt::format("reads the number %{}{}, which is not computed here", value->name(),
                       value->producer() == nullptr ? std::string(" of no tensor's shape")
                                                    : " of " + value->producer()->target()));
    number = filled(dtype_of_number(value->kind()), {}, 0);
  }
  builder().set_number(value, number);
  return number;
}

int number_result(Importer& importer, Value* value) {
  ProgramBuilder& builder = importer.builder();
  if (const int found = builder.find_number(value); found >= 0) return found;
  const int number =
      value->producer() == nullptr ? -1 : make_number(importer, *value->producer(), value);
  if (number < 0)
    throw Error("lower", "outputs",
                fmt::format("a body returns the number %{}, which is not computed here; carry a "
                            "tensor of int64 instead",
                            value->name()));
  builder.set_number(value, number);
  return number;
}

}  // namespace octet
