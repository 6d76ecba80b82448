// Sizes and what is computed of them, where an op or a decision reads one as a number: tensors
// without dimensions, of i64, f64 and bool. A size that the inputs' shapes decide is the op `size`;
// others follow from the nodes that compute them.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// What a node that computes with numbers becomes. Operands are i64 where all of them and the result
// are, else f64; those of `logical_*` are bools.
struct NumberRow {
  std::string_view op;
  const char* kind;      // of Program; "": the operand itself
  const char* function;  // of unary and binary
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

// An operand of such a node; -1 when it is none of these.
int number_argument(Importer& importer, Steps& s, const Node& node, size_t index) {
  if (index >= node.arguments().size()) return -1;
  const Argument& argument = node.arguments()[index].value;
  if (Value* value = argument.value_or_null()) return importer.number_of(node, value);
  if (const int64_t* number = argument.find<int64_t>())
    return importer.add_constant(node.name() + "_number",
                                 Tensor::from<int64_t>(DType::kInt64, {}, std::span(number, 1)));
  if (const SymIntLiteral* number = argument.find<SymIntLiteral>())
    return importer.add_constant(
        node.name() + "_number",
        Tensor::from<int64_t>(DType::kInt64, {}, std::span(&number->value, 1)));
  if (const bool* flag = argument.find<bool>()) return s.filled(DType::kBool, {}, *flag ? 1 : 0);
  if (const double* number = argument.find<double>()) return s.filled(DType::kFloat64, {}, *number);
  if (const SymFloatLiteral* number = argument.find<SymFloatLiteral>())
    return s.filled(DType::kFloat64, {}, number->value);
  return -1;
}

int compute_number(Importer& importer, const Node& node, const NumberRow& row, DType wanted) {
  Steps s(importer, node);
  const std::string_view kind = row.kind, function = row.function;
  const size_t count = kind == "" || kind == "unary" ? 1 : 2;
  std::vector<int> operands;
  for (size_t i = 0; i < count; ++i) operands.push_back(number_argument(importer, s, node, i));
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
  if (!function.empty()) attributes["fn"] = std::string(function);
  const DType made = wanted == DType::kBool ? wanted : common;
  return s.cast(s.op(row.kind, std::move(operands), {}, made, std::move(attributes)), wanted);
}

}  // namespace

bool is_number(ValueKind kind) {
  return kind == ValueKind::kSymInt || kind == ValueKind::kSymFloat || kind == ValueKind::kSymBool;
}

DType dtype_of_number(ValueKind kind) {
  return kind == ValueKind::kSymBool    ? DType::kBool
         : kind == ValueKind::kSymFloat ? DType::kFloat64
                                        : DType::kInt64;
}

bool Importer::has_size_formula(const Value& value) const {
  if (value.kind() != ValueKind::kSymInt || value.symbol.empty()) return false;
  const std::set<std::string> symbols = formula_of(value.symbol, value).symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& name) {
    return hints_.contains(name) && !undecided_.contains(name);
  });
}

int Importer::make_number(const Node& user, Value* value) {
  const Node& node = value->producer() == nullptr ? user : *value->producer();
  const NumberRow* row = value->producer() == nullptr ? nullptr : find_number_row(node);
  // what rounds comes from reals, of which formulas know nothing
  const bool has_formula = row == nullptr || std::string_view(row->kind) != "unary";
  if (has_formula && has_size_formula(*value))
    return Steps(*this, node).size(formula_of(value->symbol, *value));
  if (row != nullptr) return compute_number(*this, node, *row, dtype_of_number(value->kind()));
  if (value->producer() == nullptr) return -1;
  if (Value* self = node.find_input("self");
      self != nullptr && (node.is("aten.item") || node.is("aten._local_scalar_dense"))) {
    Steps s(*this, node);
    return s.cast(s.reshape(tensor_of(self), Sizes{}), dtype_of_number(value->kind()));
  }
  return -1;
}

int Importer::number_of(const Node& user, Value* value) {
  const auto found = numbers_.find(value);
  if (found != numbers_.end()) return found->second;
  int number = make_number(user, value);
  if (number < 0) {
    refuse(user, fmt::format("reads the number %{}{}, which is not computed here", value->name(),
                             value->producer() == nullptr ? std::string(" of no tensor's shape")
                                                          : " of " + value->producer()->target()));
    number = Steps(*this, user).filled(dtype_of_number(value->kind()), {}, 0);
  }
  return numbers_[value] = number;
}

// A body's result. Throws Error when it is not computed here.
int Importer::result_number(Value* value) {
  const auto found = numbers_.find(value);
  if (found != numbers_.end()) return found->second;
  const int number = value->producer() == nullptr ? -1 : make_number(*value->producer(), value);
  if (number < 0)
    throw Error("lower", "outputs",
                fmt::format("a body gives the number %{}, which is not computed here; carry a "
                            "tensor of int64 instead",
                            value->name()));
  return numbers_[value] = number;
}

int Importer::number_operand(const Node& user, Value* value) {
  const Value* result = user.outputs().empty() ? nullptr : user.outputs().front();
  const DType wanted = result != nullptr && result->meta ? result->meta->dtype : DType::kFloat32;
  Steps s(*this, user);
  const int number = number_of(user, value);
  if (is_floating_point(wanted))
    return s.cast(number, size_of(wanted) < 4 ? DType::kFloat32 : wanted);
  return is_floating_point(s.dtype(number)) ? s.cast(number, DType::kFloat32) : number;
}

void Importer::put_sizes_first() {
  std::vector<bool> is_size(program_.tensors.size(), false);
  const auto follows = [&](const ProgramOp& op) {
    const auto is_known = [&](int index) {
      return index < 0 || is_size[static_cast<size_t>(index)] || tensor(index).is_constant();
    };
    const auto reads_size = [&](int index) {
      return index >= 0 && is_size[static_cast<size_t>(index)];
    };
    return op.kind == "size" || (std::any_of(op.inputs.begin(), op.inputs.end(), reads_size) &&
                                 std::all_of(op.inputs.begin(), op.inputs.end(), is_known));
  };
  std::vector<ProgramOp> first, rest;
  for (ProgramOp& op : program_.ops) {
    const bool is_first = follows(op);
    for (int index : op.outputs) is_size[static_cast<size_t>(index)] = is_first;
    (is_first ? first : rest).push_back(std::move(op));
  }
  first.insert(first.end(), std::make_move_iterator(rest.begin()),
               std::make_move_iterator(rest.end()));
  program_.ops = std::move(first);
}

}  // namespace octet
