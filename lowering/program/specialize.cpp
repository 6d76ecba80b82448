// Evaluates the formulas of shapes and attributes, and copies everything else.
#include "lowering/program/specialize.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/program/control.h"
#include "lowering/program/symbols.h"

namespace octet {

std::string describe(const SymbolValues& values) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : values) texts.push_back(fmt::format("{} = {}", name, value));
  return fmt::format("{}", fmt::join(texts, ", "));
}

namespace {

// The values of all symbols. Data-dependent symbols, in the body of a `rest`, stay open; their
// hints are their values.
struct Sizing {
  SymbolValues values;
  std::vector<ShapeSymbol> open = {};
  std::map<std::string, SizeExpr> known = {};  // the others

  Sizing(const SymbolValues& given, std::vector<ShapeSymbol> left)
      : values(given), open(std::move(left)) {
    if (open.empty()) return;
    for (const auto& [name, value] : values) known.emplace(name, value);
    for (const ShapeSymbol& symbol : open) {
      values[symbol.name] = symbol.hint;
      known.erase(symbol.name);
    }
  }

  // The formulas of the open symbols that remain; empty if all are numbers.
  std::vector<SizeExpr> rest_of(const std::vector<SizeExpr>& sizes) const {
    if (open.empty()) return {};
    std::vector<SizeExpr> left;
    for (const SizeExpr& size : sizes) left.push_back(size.with(known));
    return is_symbolic(left) ? left : std::vector<SizeExpr>();
  }
};

ProgramTensor fixed(ProgramTensor tensor, const Sizing& sizing) {
  if (tensor.sizes.empty()) return tensor;
  const SymbolValues& values = sizing.values;
  tensor.shape = evaluate(tensor.sizes, values);
  tensor.sizes = sizing.rest_of(tensor.sizes);
  if (!is_sane_shape(tensor.dtype, tensor.shape))
    throw Error("shape", tensor.name,
                fmt::format("becomes {} at {}, which no tensor can be; give other sizes",
                            tensor.shape, describe(values)));
  return tensor;
}

ProgramOp fixed(ProgramOp op, const Sizing& sizing) {
  std::map<std::string, std::vector<SizeExpr>> left;
  for (const auto& [key, sizes] : op.sizes) {
    const std::vector<int64_t> numbers = evaluate(sizes, sizing.values);
    Attribute& attribute = op.attributes.at(key);
    if (std::holds_alternative<int64_t>(attribute)) {
      attribute = numbers.at(0);
    } else {
      attribute = numbers;
    }
    if (std::vector<SizeExpr> open = sizing.rest_of(sizes); !open.empty())
      left[key] = std::move(open);
  }
  op.sizes = std::move(left);
  return op;
}

// The symbols of the body that counts of the op decide, with their greatest values: the number of
// rows.
std::vector<ShapeSymbol> counted_symbols(const Program& program, const ProgramOp& op,
                                         const Program& body, const Sizing& sizing) {
  std::vector<ShapeSymbol> symbols;
  for (ShapeSymbol symbol : body.symbols) {
    if (sizing.values.contains(symbol.name)) continue;
    const std::optional<size_t> place = find_counted_input(body, op, symbol.name);
    OCTET_ASSERT(place, "a symbol that no count decides");
    const int rows = op.inputs[static_cast<size_t>(op.get(attr::kCounts)) + *place];
    symbol.hint = symbol.max = std::min(symbol.max, program.tensor(rows).shape[0]);
    symbol.min = std::min(symbol.min, symbol.hint);
    symbols.push_back(std::move(symbol));
  }
  return symbols;
}

Program specialize_at(const Program& program, const Sizing& sizing) {
  Program result;
  result.backend = program.backend;
  result.versions = program.versions;
  for (const ProgramTensor& tensor : program.tensors)
    result.tensors.push_back(fixed(tensor, sizing));
  for (const ProgramOp& op : program.ops) result.ops.push_back(fixed(op, sizing));
  result.segments = program.segments;
  result.inputs = program.inputs;
  result.outputs = program.outputs;
  result.states = program.states;
  result.symbols = sizing.open;
  for (size_t i = 0; i < program.bodies.size(); ++i) {
    const Program& body = program.bodies[i];
    std::vector<ShapeSymbol> open;
    for (const ShapeSymbol& symbol : sizing.open)
      if (has_symbol(body, symbol.name)) open.push_back(symbol);
    if (const ProgramOp* rest = find_rest(program, i))
      for (ShapeSymbol& symbol : counted_symbols(result, *rest, body, sizing))
        open.push_back(std::move(symbol));
    result.bodies.push_back(specialize_at(body, Sizing(sizing.values, std::move(open))));
  }
  result.reasons = program.reasons;
  return result;
}

}  // namespace

Program specialize(const Program& program, const SymbolValues& values) {
  return specialize_at(program, Sizing(values, {}));
}

Program specialize_op(const Program& program, const ProgramOp& op, const SymbolValues& values) {
  Program result;
  const Sizing sizing(values, {});
  ProgramOp only = fixed(op, sizing);
  for (std::vector<int>* indices : {&only.inputs, &only.outputs})
    for (int& index : *indices) {
      if (index < 0) continue;
      result.tensors.push_back(fixed(program.tensor(index), sizing));
      index = static_cast<int>(result.tensors.size()) - 1;
    }
  result.ops.push_back(std::move(only));
  return result;
}

}  // namespace octet
