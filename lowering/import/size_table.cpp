// Turns the sizes of a graph into formulas, and finds for each symbol the input dimension or the
// count that decides it.
#include "lowering/import/size_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/size.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

std::string subject_of(const Value& value) { return "%" + value.name(); }

}  // namespace

bool is_item(const Node& node) {
  return node.is("aten.item") || node.is("aten._local_scalar_dense");
}

// ---- formulas

SizeExpr SizeTable::formula_of(const std::string& expression, const Value& value) const {
  return parse_size(expression, subject_of(value)).with(defined_);
}

SizeExpr SizeTable::formula_of(const Dim& dim, const Value& value) const {
  return dim.is_symbolic() ? formula_of(dim.expr, value) : SizeExpr(dim.value);
}

bool SizeTable::has_formula(const Value& value) const {
  if (value.kind() != ValueKind::kSymInt || value.symbol.empty()) return false;
  const std::set<std::string> symbols = formula_of(value.symbol, value).symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& name) {
    return hints_.contains(name) && !given_up_.contains(name);
  });
}

Sizes SizeTable::sizes_of(const Value& value) const {
  if (!value.meta)
    throw Error("lower", subject_of(value),
                "has no recorded shape; export the program with torch.export");
  Sizes sizes;
  for (const Dim& dim : value.meta->sizes) {
    sizes.push_back(formula_of(dim, value));
    for (const std::string& name : sizes.back().symbols())
      if (!hints_.contains(name))
        throw Error("lower", subject_of(value),
                    fmt::format("has the size {}, which is known only when the program runs, want "
                                "one that the inputs' sizes decide; export with a fixed one",
                                sizes.back().to_text()));
  }
  return sizes;
}

Sizes SizeTable::sizes_argument(const Node& node, const char* name) const {
  const Argument* argument = node.find_argument(name);
  const SymIntList* list = argument == nullptr ? nullptr : argument->find<SymIntList>();
  if (list == nullptr) return Sizes(node.ints_or(name, {}));
  Sizes sizes;
  for (const std::variant<int64_t, Value*>& item : list->items) {
    Value* const* value = std::get_if<Value*>(&item);
    sizes.push_back(value == nullptr ? SizeExpr(std::get<int64_t>(item))
                                     : formula_of((*value)->symbol, **value));
  }
  return sizes;
}

// ---- values

int64_t SizeTable::most_of(const SizeExpr& size) const {
  SymbolValues greatest;
  for (const ShapeSymbol& symbol : symbols()) greatest[symbol.name] = symbol.max;
  try {
    return std::min(size.evaluate(greatest), kLargestSize);
  } catch (const Error&) {
    return kLargestSize;  // beyond 64 bits
  }
}

int64_t SizeTable::greatest(const SizeExpr& size) const {
  if (size.is_number()) return size.number();
  const int64_t most = size.steps().size() == 1 ? most_of(size) : kLargestSize;
  return most < kLargestSize ? most : -1;
}

RangeConstraint SizeTable::range_of(const std::string& symbol) const {
  const auto range = graph_.range_constraints.find(symbol);
  return range == graph_.range_constraints.end() ? RangeConstraint{} : range->second;
}

// ---- symbols

void SizeTable::declare(Program& program) {
  std::set<std::string> names;
  std::vector<const int64_t*> shapes;
  for (int index : program.inputs) {
    shapes.push_back(index < 0 ? nullptr : program.tensor(index).shape.data());
    if (index < 0) continue;
    const ProgramTensor& tensor = program.tensor(index);
    for (const SizeExpr& size : tensor.sizes) names.merge(size.symbols());
    for (int64_t size : tensor.shape)
      if (size < 0)
        throw Error(
            "lower", tensor.name,
            "has a size of which the export recorded no example; export with example inputs");
  }
  if (names.empty()) return;
  for (const std::string& name : names) {
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [&](const ShapeSymbol& symbol) { return symbol.name == name; });
    if (known != known_.end()) {
      program.symbols.push_back(*known);
      continue;
    }
    const RangeConstraint limits = range_of(name);
    program.symbols.push_back({name, std::max<int64_t>(limits.min.value_or(0), 0),
                               std::min(limits.max.value_or(kLargestSize), kLargestSize), 0});
  }
  const std::set<std::string> undecided = undecided_symbols(program);
  if (!undecided.empty())
    throw Error("lower", *undecided.begin(),
                "is a size that no input's shape decides alone; export with a dimension that is "
                "this symbol");
  hints_ = bind_symbols(program, shapes, "lower");
  for (ShapeSymbol& symbol : program.symbols) symbol.hint = hints_.at(symbol.name);
  symbols_ = program.symbols;
}

std::vector<int64_t> SizeTable::body_example(const Sizes& sizes,
                                             const std::vector<int64_t>& recorded) const {
  SymbolValues hints;
  for (const ShapeSymbol& symbol : known_) hints[symbol.name] = symbol.hint;
  for (const SizeExpr& size : sizes)
    for (const std::string& name : size.symbols())
      if (!hints.contains(name)) return recorded;
  return evaluate(sizes, hints);
}

void SizeTable::add_counted(CountedSize size) {
  hints_[size.symbol.name] = size.symbol.hint;
  counted_.push_back(std::move(size));
}

bool SizeTable::is_counted(const SizeExpr& size) const {
  const std::set<std::string> names = size.symbols();
  return std::any_of(counted_.begin(), counted_.end(), [&](const CountedSize& counted) {
    return names.contains(counted.symbol.name);
  });
}

std::vector<ShapeSymbol> SizeTable::symbols() const {
  std::vector<ShapeSymbol> all = symbols_;
  for (const CountedSize& size : counted_) all.push_back(size.symbol);
  return all;
}

// ---- sizes that are not known yet, or never

// Returns the first symbol in the sizes of a tensor for which `is_wanted` holds, or "".
template <typename Predicate>
std::string SizeTable::find_symbol(const Value& value, const Predicate& is_wanted) const {
  if (value.kind() != ValueKind::kTensor || !value.meta) return "";
  for (const Dim& dim : value.meta->sizes)
    if (dim.is_symbolic())
      for (const std::string& name : formula_of(dim.expr, value).symbols())
        if (is_wanted(name)) return name;
  return "";
}

SizeExpr SizeTable::new_size(const Node& node, size_t dim) const {
  const Value& value = *node.outputs().front();
  if (!value.meta || value.meta->sizes.empty()) return 0;
  for (const Dim& at : value.meta->sizes) {
    const SizeExpr size = formula_of(at, value);
    const std::set<std::string> names = size.symbols();
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return !is_known(name); }))
      return size;
  }
  return formula_of(value.meta->sizes[std::min(dim, value.meta->sizes.size() - 1)], value);
}

std::string SizeTable::find_new_symbol(const Value& value) const {
  return find_symbol(value, [&](const std::string& name) { return !is_known(name); });
}

bool SizeTable::has_new_size(const Node& node) const {
  const std::vector<Value*> values = node.outputs();
  return std::any_of(values.begin(), values.end(),
                     [&](const Value* value) { return !find_new_symbol(*value).empty(); });
}

void SizeTable::give_up(const Node& node) {
  for (const Value* value : node.outputs())
    for (std::string name; !(name = find_new_symbol(*value)).empty();) {
      given_up_.insert(name);
      hints_[name] = 1;
    }
}

bool SizeTable::touches_given_up(const Node& node) const {
  const auto touches = [&](const Value* value) {
    return !find_symbol(*value, [&](const std::string& name) {
              return given_up_.contains(name);
            }).empty();
  };
  const std::vector<Value*> inputs = node.inputs(), outputs = node.outputs();
  return std::any_of(inputs.begin(), inputs.end(), touches) ||
         std::any_of(outputs.begin(), outputs.end(), touches);
}

std::string SizeTable::refusal_of(const std::string& symbol) const {
  return fmt::format("gives the size {}{}", symbol,
                     endless_.contains(symbol)
                         ? ", a number without a maximum (torch._check(n <= 100) sets one)"
                         : "");
}

void SizeTable::note_item_sizes() {
  const std::vector<Node*> nodes = graph_.nodes();
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node* node) { return is_item(*node); }))
    return;
  for (const Node* node : nodes)
    for (const Value* value : node->outputs())
      for (const Dim& dim : value->meta ? value->meta->sizes : std::vector<Dim>())
        if (dim.is_symbolic()) item_sizes_.merge(formula_of(dim.expr, *value).symbols());
}

}  // namespace octet
