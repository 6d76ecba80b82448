// Ops whose result has as many elements as its input's values say: where a tensor is not 0, what a
// mask selects; and numbers of item() that are sizes.
#include "lowering/import/counts.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/importer.h"
#include "lowering/import/steps.h"
#include "lowering/program/symbols.h"

namespace octet {

Places find_places(Steps& s, const Node& node, int x) {
  Places places;
  const Sizes rows = {element_count(s.sizes(x)), static_cast<int64_t>(s.rank(x))};
  places.rows = s.op("nonzero", {x}, rows, DType::kInt64);
  places.count = s.importer().add_intermediate(node.name() + "_count", DType::kInt64, {});
  s.importer().program().ops.back().outputs.push_back(places.count);
  return places;
}

int first_places(Steps& s, const Node& node, int x, const SizeExpr& size) {
  const Places places = find_places(s, node, x);
  return s.importer().first_rows(node, places.rows, places.count, size);
}

int column(Steps& s, int rows, int64_t d) {
  return s.reshape(s.slice(rows, 1, d, 1), {s.sizes(rows)[0]});
}

// nonzero, a tensor of indices for each dimension.
void import_nonzero_by_dimension(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.at_least_1d(s.operand({"self", "condition"}));
  const int places = first_places(s, node, x, importer.new_size(node));
  if (places < 0) return;
  const std::vector<Value*> results = node.outputs();
  for (size_t d = 0; d < std::min(results.size(), s.rank(x)); ++d)
    s.give(results[d], column(s, places, static_cast<int64_t>(d)));
}

namespace {

void import_nonzero(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self");
  const int places = first_places(s, node, x, importer.new_size(node));
  if (places >= 0) s.give(places);
}

// As many rows as are asked for, with another number behind the last place.
void import_nonzero_static(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const Places places = find_places(s, node, s.operand("self"));
  const SizeExpr found = s.sizes(places.rows)[0], wanted = importer.size_argument(node, "size", 0);
  if (!found.is_number() || !wanted.is_number())
    return importer.refuse(node, "of sizes that are not fixed");
  const SizeExpr columns = s.sizes(places.rows)[1];
  int rows = s.slice(places.rows, 0, 0, minimum(found, wanted));
  if (wanted.number() > found.number()) {
    const std::vector<int64_t> more = {wanted.number() - found.number(), columns.number()};
    rows = s.cat({rows, s.filled(DType::kInt64, more, 0)}, 0);
  }
  const int is_there = s.compare("lt", s.reshape(s.numbers(wanted), {wanted, 1}), places.count);
  const int fill = s.filled(DType::kInt64, {}, static_cast<double>(node.int_or("fill_value", -1)));
  s.give(s.where(is_there, rows, fill));
}

void import_masked_select(Importer& importer, const Node& node) {
  Steps s(importer, node);
  int x = s.operand("self"), mask = s.operand("mask");
  const Sizes sizes = broadcast(s.sizes(x), s.sizes(mask));
  // torch 2.13 records the elements of x as the most, though the mask may repeat x
  const bool has_range = s.sizes(x) == sizes;
  x = s.flatten(s.expand(x, sizes));
  const Places places = find_places(s, node, s.flatten(s.expand(mask, sizes)));
  const int rows =
      importer.first_rows(node, places.rows, places.count, importer.new_size(node), has_range);
  if (rows < 0) return;
  const int index = column(s, rows, 0);
  s.give(s.op("index", {x, index}, s.sizes(index), s.dtype(x)));
}

constexpr ImportRow kCountRows[] = {
    {"aten.nonzero", import_nonzero},
    {"aten.argwhere", import_nonzero},
    {"aten.nonzero_numpy", import_nonzero_by_dimension},
    {"aten.nonzero_static", import_nonzero_static},
    {"aten.masked_select", import_masked_select},
};

bool is_mask(const Value* value) {
  return value != nullptr && value->meta && value->meta->dtype == DType::kBool;
}

}  // namespace

bool counts_when_run(const Node& node) {
  const auto is_row = [&](const ImportRow& row) { return node.is(row.op); };
  for (const std::span<const ImportRow> rows : {count_import_rows(), unique_import_rows()})
    if (std::any_of(rows.begin(), rows.end(), is_row)) return true;
  if (is_nonzero_by_where(node) || node.target().starts_with("higher_order.")) return true;
  if (!node.is("aten.index") && !node.is("aten._unsafe_index")) return false;
  const std::vector<Value*> indices = index_values(node);
  return std::any_of(indices.begin(), indices.end(), is_mask);
}

bool is_nonzero_by_where(const Node& node) {
  return node.is("aten.where") && node.find_argument("self") == nullptr;
}

// A mask stands for as many tensors of indices as it has dimensions.
void import_index_by_mask(Importer& importer, const Node& node, int x,
                          const std::vector<int>& indices) {
  Steps s(importer, node);
  std::vector<int> inputs = {x};
  for (int index : indices) {
    if (index < 0 || s.dtype(index) != DType::kBool) {
      inputs.push_back(index);
      continue;
    }
    if (s.rank(index) == 0) return importer.refuse(node, "by a mask without dimensions");
    const size_t before = static_cast<size_t>(inputs.size() - 1);
    const int places = first_places(s, node, index, importer.new_size(node, before));
    if (places < 0) return;
    for (size_t d = 0; d < s.rank(index); ++d)
      inputs.push_back(column(s, places, static_cast<int64_t>(d)));
  }
  while (inputs.size() > 1 && inputs.back() < 0) inputs.pop_back();
  importer.emit(node, "index", std::move(inputs));
}

SizeExpr Importer::new_size(const Node& node, size_t dim) const {
  const Value& value = *node.outputs().front();
  if (!value.meta || value.meta->sizes.empty()) return 0;
  const auto size_at = [&](const Dim& at) { return dim_formula(at, value); };
  for (const Dim& at : value.meta->sizes) {
    const std::set<std::string> names = size_at(at).symbols();
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return !is_known(name); }))
      return size_at(at);
  }
  return size_at(value.meta->sizes[std::min(dim, value.meta->sizes.size() - 1)]);
}

bool Importer::is_counted(const SizeExpr& size) const {
  const std::set<std::string> names = size.symbols();
  return std::any_of(counted_.begin(), counted_.end(), [&](const CountedSize& counted) {
    return names.contains(counted.symbol.name);
  });
}

int64_t Importer::most_of(const SizeExpr& size) const {
  SymbolValues greatest;
  for (const ShapeSymbol& symbol : program_.symbols) greatest[symbol.name] = symbol.max;
  for (const CountedSize& counted : counted_) greatest[counted.symbol.name] = counted.symbol.max;
  try {
    return std::min(size.evaluate(greatest), kLargestSize);
  } catch (const Error&) {
    return kLargestSize;  // beyond 64 bits
  }
}

int Importer::first_rows(const Node& node, int rows, int count, const SizeExpr& size,
                         bool has_range) {
  Steps s(*this, node);
  for (const std::string& name : size.symbols()) {
    if (hints_.contains(name)) continue;
    if (size.steps().size() != 1) {
      refuse(node, fmt::format("gives the size {}", size.to_text()), RefusalKind::kSize);
      return -1;
    }
    const RangeConstraint limits = has_range ? range_of(name) : RangeConstraint{};
    const int64_t limit = std::min(limits.max.value_or(kLargestSize), kLargestSize);
    SizeExpr greatest = s.sizes(rows)[0];
    if (most_of(greatest) > limit) {
      greatest = minimum(greatest, limit);
      rows = s.slice(rows, 0, 0, greatest);
    }
    const int64_t hint = greatest.evaluate(hints_);
    hints_[name] = hint;
    counted_.push_back(
        {{name, std::clamp<int64_t>(limits.min.value_or(0), 0, hint), most_of(greatest), hint},
         greatest});
  }
  const Sizes sizes = {size, s.sizes(rows)[1]};
  const int64_t wanted = size.evaluate(hints_);
  if (tensor(rows).shape[0] != wanted) rows = s.slice(rows, 0, 0, size);
  return s.op(kFirstRows, {rows, count}, sizes, DType::kInt64);
}

namespace {

bool is_item(const Node* node) {
  return node->is("aten.item") || node->is("aten._local_scalar_dense");
}

}  // namespace

void Importer::note_item_sizes() {
  const std::vector<Node*> nodes = graph_.nodes();
  if (std::none_of(nodes.begin(), nodes.end(), is_item)) return;
  for (const Node* node : nodes)
    for (const Value* value : node->outputs())
      for (const Dim& dim : value->meta ? value->meta->sizes : std::vector<Dim>())
        if (dim.is_symbolic()) item_sizes_.merge(formula_of(dim.expr, *value).symbols());
}

int Importer::first_numbers(const Node& node, int count, const SizeExpr& size) {
  int64_t most = size.is_number() ? size.number() : most_of(size);
  for (const std::string& name : size.symbols()) {
    if (hints_.contains(name)) continue;
    const RangeConstraint limits = range_of(name);
    most = limits.max.value_or(kLargestSize);
    if (most < kLargestSize && limits.min.value_or(0) >= 0) continue;
    endless_.insert(name);
    refuse_size(node, name);
    return -1;
  }
  // as many rows of nothing as the number can be
  Steps s(*this, node);
  return first_rows(node, s.filled(DType::kInt64, {most, 0}, 0), count, size);
}

void Importer::import_item(const Node& node) {
  if (!is_item(&node)) return;
  const Value& value = *node.outputs().front();
  Value* self = node.find_input("self");
  if (value.kind() != ValueKind::kSymInt || value.symbol.empty() || self == nullptr) return;
  const SizeExpr size = formula_of(value.symbol, value);
  if (size.steps().size() != 1) return;
  const std::string name = *size.symbols().begin();
  if (hints_.contains(name) || !item_sizes_.contains(name)) return;
  const RangeConstraint limits = range_of(name);
  if (limits.max.value_or(kLargestSize) >= kLargestSize || limits.min.value_or(-1) < 0) {
    endless_.insert(name);
    return;
  }
  Steps s(*this, node);
  first_numbers(node, s.cast(s.reshape(tensor_of(self), Sizes{}), DType::kInt64), size);
}

std::span<const ImportRow> count_import_rows() { return kCountRows; }

}  // namespace octet
