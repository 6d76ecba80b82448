// The importer's side of shapes that are not fixed: which symbols the inputs have, and sizes as
// formulas of them.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/importer.h"
#include "lowering/import/size.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

std::string subject_of(const Value& value) { return "%" + value.name(); }

bool has_symbols(const Value& value) { return value.meta && !value.meta->is_static(); }

}  // namespace

SizeExpr Importer::formula_of(const std::string& expression, const Value& value) const {
  return parse_size(expression, subject_of(value)).with(defined_);
}

SizeExpr Importer::dim_formula(const Dim& dim, const Value& value) const {
  return dim.is_symbolic() ? formula_of(dim.expr, value) : SizeExpr(dim.value);
}

RangeConstraint Importer::range_of(const std::string& symbol) const {
  const auto range = graph_.range_constraints.find(symbol);
  return range == graph_.range_constraints.end() ? RangeConstraint{} : range->second;
}

void Importer::import_inputs() {
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind == InputKind::kConstant) program_.inputs.push_back(-1);
    if (input.kind != InputKind::kUserInput) continue;
    Value* value = input.value;
    // One that nobody reads stays when its sizes are to be looked at.
    if (value->kind() != ValueKind::kTensor || (value->is_unused() && !has_symbols(*value))) {
      program_.inputs.push_back(-1);
      continue;
    }
    if (!value->meta)
      throw Error("lower", subject_of(*value),
                  "has no recorded shape; export the program with torch.export");
    Sizes sizes;
    for (const Dim& dim : value->meta->sizes) sizes.push_back(dim_formula(dim, *value));
    ProgramTensor tensor{value->name(),
                         value->meta->dtype,
                         value->meta->shape(),
                         {},
                         ProgramTensor::Role::kInput,
                         {}};
    if (is_symbolic(sizes)) tensor.shape = evaluate_known(sizes, tensor.shape);
    if (is_symbolic(sizes)) tensor.sizes = std::move(sizes);
    tensors_[value] = add_tensor(std::move(tensor));
    program_.inputs.push_back(tensors_[value]);
  }
  declare_symbols();
  if (depth_ > 0) import_number_inputs();
}

// At the hints of the symbols around a body, for which its graph has no example where counts decide
// them; `recorded` where not all are known.
std::vector<int64_t> Importer::evaluate_known(const Sizes& sizes,
                                              const std::vector<int64_t>& recorded) const {
  SymbolValues hints;
  for (const ShapeSymbol& symbol : known_) hints[symbol.name] = symbol.hint;
  for (const SizeExpr& size : sizes)
    for (const std::string& name : size.symbols())
      if (!hints.contains(name)) return recorded;
  return evaluate(sizes, hints);
}

// What a body gets as a number, and no size of its tensors decides: a tensor without dimensions.
void Importer::import_number_inputs() {
  size_t position = 0;
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind != InputKind::kConstant && input.kind != InputKind::kUserInput) continue;
    int& place = program_.inputs[position++];
    Value* value = input.value;
    if (input.kind == InputKind::kConstant || !is_number(value->kind()) || value->is_unused() ||
        has_size_formula(*value))
      continue;
    place = add_tensor(
        {value->name(), dtype_of_number(value->kind()), {}, {}, ProgramTensor::Role::kInput, {}});
    numbers_[value] = place;
  }
}

// Ranges are those of the export, hints the sizes of its example.
void Importer::declare_symbols() {
  std::set<std::string> names;
  std::vector<const int64_t*> shapes;
  for (int index : program_.inputs) {
    shapes.push_back(index < 0 ? nullptr : tensor(index).shape.data());
    if (index < 0) continue;
    for (const SizeExpr& size : tensor(index).sizes) names.merge(size.symbols());
    for (int64_t size : tensor(index).shape)
      if (size < 0)
        throw Error(
            "lower", tensor(index).name,
            "has a size of which the export recorded no example; export with example inputs");
  }
  if (names.empty()) return;
  for (const std::string& name : names) {
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [&](const ShapeSymbol& symbol) { return symbol.name == name; });
    if (known != known_.end()) {
      program_.symbols.push_back(*known);
      continue;
    }
    const RangeConstraint limits = range_of(name);
    program_.symbols.push_back({name, std::max<int64_t>(limits.min.value_or(0), 0),
                                std::min(limits.max.value_or(kLargestSize), kLargestSize), 0});
  }
  const std::set<std::string> undecided = undecided_symbols(program_);
  if (!undecided.empty())
    throw Error("lower", *undecided.begin(),
                "is a size that no input's shape decides alone; export with a dimension that is "
                "this symbol");
  hints_ = bind_symbols(program_, shapes, "lower");
  for (ShapeSymbol& symbol : program_.symbols) symbol.hint = hints_.at(symbol.name);
}

Sizes Importer::sizes(int index) const {
  return tensor(index).sizes.empty() ? Sizes(tensor(index).shape) : Sizes(tensor(index).sizes);
}

Sizes Importer::sizes_of(const Value& value) const {
  if (!value.meta)
    throw Error("lower", subject_of(value),
                "has no recorded shape; export the program with torch.export");
  Sizes sizes;
  for (const Dim& dim : value.meta->sizes) {
    sizes.push_back(dim_formula(dim, value));
    for (const std::string& name : sizes.back().symbols())
      if (!hints_.contains(name))
        throw Error("lower", subject_of(value),
                    fmt::format("has the size {}, which is known only when the program runs, want "
                                "one that the inputs' sizes decide; export with a fixed one",
                                sizes.back().to_text()));
  }
  return sizes;
}

SizeExpr Importer::size_argument(const Node& node, const char* name, int64_t fallback) {
  const Argument* argument = node.find_argument(name);
  Value* const* value = argument == nullptr ? nullptr : argument->find<Value*>();
  if (value == nullptr || (*value)->kind() != ValueKind::kSymInt)
    return SizeExpr(node.int_or(name, fallback));
  if ((*value)->symbol.empty())
    fail(node, fmt::format("has {} %{} without a recorded expression", name, (*value)->name()));
  if (has_size_formula(**value)) return formula_of((*value)->symbol, **value);
  refuse(node, fmt::format("has the {} %{}", name, (*value)->name()), RefusalKind::kSize);
  return 0;
}

Sizes Importer::sizes_argument(const Node& node, const char* name) const {
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

namespace {

// The first symbol in the sizes of a tensor for which `is_wanted` holds; "" without one.
template <typename Predicate>
std::string find_symbol(const Importer& importer, const Value& value, const Predicate& is_wanted) {
  if (value.kind() != ValueKind::kTensor || !value.meta) return "";
  for (const Dim& dim : value.meta->sizes)
    if (dim.is_symbolic())
      for (const std::string& name : importer.formula_of(dim.expr, value).symbols())
        if (is_wanted(name)) return name;
  return "";
}

}  // namespace

bool Importer::refuse_open_ends(const Node& node) {
  const auto is_undecided = [&](const std::string& name) { return undecided_.contains(name); };
  bool touches = false;
  for (const Value* value : node.inputs())
    touches = touches || !find_symbol(*this, *value, is_undecided).empty();
  for (const Value* value : node.outputs())
    touches = touches || !find_symbol(*this, *value, is_undecided).empty();
  if (!has_new_size(node) || (!touches && counts_when_run(node))) return touches;
  return refuse_new_sizes(node);
}

std::string Importer::find_new_symbol(const Value& value) const {
  return find_symbol(*this, value, [&](const std::string& name) { return !is_known(name); });
}

bool Importer::refuse_new_sizes(const Node& node) {
  std::set<std::string> told;
  for (const Value* value : node.outputs())
    if (const std::string name = find_new_symbol(*value); !name.empty() && told.insert(name).second)
      refuse_size(node, name);
  mark_open_ends(node);
  return !told.empty();
}

void Importer::refuse_size(const Node& node, const std::string& name) {
  refuse(node,
         fmt::format("gives the size {}{}", name,
                     endless_.contains(name) ? ", a number without a greatest value "
                                               "(torch._check(n <= 100) gives it one)"
                                             : ""),
         RefusalKind::kSize);
}

bool Importer::has_new_size(const Node& node) const {
  const std::vector<Value*> values = node.outputs();
  return std::any_of(values.begin(), values.end(),
                     [&](const Value* value) { return !find_new_symbol(*value).empty(); });
}

void Importer::mark_open_ends(const Node& node) {
  for (const Value* value : node.outputs())
    for (std::string name; !(name = find_new_symbol(*value)).empty();) {
      undecided_.insert(name);
      hints_[name] = 1;
    }
}

std::optional<int64_t> fixed_size(Importer& importer, const Node& node, int x, size_t dim) {
  if (dim >= importer.tensor(x).shape.size()) {
    importer.refuse(node, "of a tensor that has not this dimension");
    return std::nullopt;
  }
  const SizeExpr size = importer.sizes(x)[dim];
  if (size.is_number()) return size.number();
  importer.refuse(node, "along a dimension whose size is not fixed");
  return std::nullopt;
}

int64_t Importer::greatest(const SizeExpr& size) const {
  if (size.is_number()) return size.number();
  const int64_t most = size.steps().size() == 1 ? most_of(size) : kLargestSize;
  return most < kLargestSize ? most : -1;
}

int Importer::add_intermediate(const std::string& name, DType dtype, const Sizes& sizes) {
  ProgramTensor tensor{name, dtype, evaluate(sizes, hints_), {}, ProgramTensor::Role::kIntermediate,
                       {}};
  if (is_symbolic(sizes)) tensor.sizes = sizes;
  return add_tensor(std::move(tensor));
}

void Importer::set_size(const std::string& key, const SizeExpr& size) {
  ProgramOp& op = program_.ops.back();
  op.attributes[key] = size.evaluate(hints_);
  if (!size.is_number()) op.sizes[key] = {size};
}

void Importer::set_sizes(const std::string& key, const Sizes& sizes) {
  ProgramOp& op = program_.ops.back();
  op.attributes[key] = evaluate(sizes, hints_);
  if (is_symbolic(sizes)) op.sizes[key] = sizes;
}

}  // namespace octet
