// Ops whose result has as many elements as its input's values say: where a tensor is not 0, what a
// mask selects, what is unique; and numbers of item() that are sizes.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/importer.h"
#include "lowering/import/size.h"
#include "lowering/import/steps.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

// ---- where a tensor is not 0

struct Places {
  int rows = -1;  // [as many as there are, dimensions of the tensor], i64
  int count = -1;
};

Places find_places(Steps& s, const Node& node, int x) {
  SizeExpr elements = 1;
  for (const SizeExpr& size : s.sizes(x)) elements = elements * size;
  Places places;
  places.rows = s.op("nonzero", {x}, {elements, static_cast<int64_t>(s.rank(x))}, DType::kInt64);
  places.count = s.importer().add_intermediate(node.name() + "_count", DType::kInt64, {});
  s.importer().program().ops.back().outputs.push_back(places.count);
  return places;
}

// The first rows of them; -1 when refused.
int first_places(Steps& s, const Node& node, int x, const SizeExpr& size) {
  const Places places = find_places(s, node, x);
  return s.importer().first_rows(node, places.rows, places.count, size);
}

// Column d of places, one index for each row.
int column(Steps& s, int places, int64_t d) {
  return s.reshape(s.slice(places, 1, d, 1), {s.sizes(places)[0]});
}

void import_nonzero(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self");
  const int places = first_places(s, node, x, importer.new_size(node));
  if (places >= 0) s.give(places);
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

void import_masked_select(Importer& importer, const Node& node) {
  Steps s(importer, node);
  int x = s.operand("self"), mask = s.operand("mask");
  const Sizes sizes = broadcast(s.sizes(x), s.sizes(mask));
  x = s.flatten(s.expand(x, sizes));
  const int places =
      first_places(s, node, s.flatten(s.expand(mask, sizes)), importer.new_size(node));
  if (places < 0) return;
  const int index = column(s, places, 0);
  s.give(s.op("index", {x, index}, s.sizes(index), s.dtype(x)));
}

// ---- what is unique

// Where in a row of elements one differs from the one before it; the first does.
int find_changes(Steps& s, int x) {
  const SizeExpr length = s.sizes(x)[0];
  const int differs = s.compare("ne", s.slice(x, 0, 1, length - 1), s.slice(x, 0, 0, length - 1));
  return s.cat({s.filled(DType::kBool, {1}, 1), differs}, 0);
}

int running_sum(Steps& s, int x) {
  return s.op("cumulative",
              {
                  x
  },
              s.sizes(x), DType::kInt64,
              {{"dim", int64_t{0}}, {"fn", std::string("sum")}});
}

// x: elements in a row, equal ones side by side; order: where each comes from, -1: from where it
// is. Gives the unique ones, for each element of `shape` which it is, and how often there is each.
void give_unique(Steps& s, const Node& node, int x, int order, const Sizes& shape) {
  Importer& importer = s.importer();
  const int changes = find_changes(s, x);
  const int places = first_places(s, node, changes, importer.new_size(node));
  if (places < 0) return;
  const int at = column(s, places, 0);
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], s.op("index", {x, at}, s.sizes(at), s.dtype(x)));
  if (results.size() < 2) return;
  const int which = s.sub(running_sum(s, changes), s.filled(DType::kInt64, {}, 1));
  if (!results[1]->is_unused()) {
    const Sizes sizes = s.sizes(x);
    const int zeros = s.expand(s.filled(DType::kInt64, {1}, 0), sizes);
    const int back = order < 0 ? which
                               : s.op("scatter",
                                      {
                                          zeros, order, which
    },
                                      sizes, DType::kInt64,
                                      {{"dim", int64_t{0}}, {"reduce", std::string("none")}});
    s.give(results[1], s.reshape(back, shape));
  }
  if (results.size() < 3 || results[2]->is_unused()) return;
  const int zeros = s.expand(s.filled(DType::kInt64, {1}, 0), s.sizes(at));
  const int ones = s.expand(s.filled(DType::kInt64, {1}, 1), s.sizes(x));
  s.give(results[2], s.op("scatter",
                          {
                              zeros, which, ones
  },
                          s.sizes(at), DType::kInt64,
                          {{"dim", int64_t{0}}, {"reduce", std::string("sum")}}));
}

bool is_empty(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [](const SizeExpr& size) { return size.is_number() && size.number() == 0; });
}

void import_unique(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int self = s.operand("self");
  if (is_empty(s.sizes(self))) return importer.refuse(node, "of no elements");
  const int x = s.flatten(self);
  const int sorted = s.op("sort", {x}, s.sizes(x), s.dtype(x),
                          {
                              {"dim",        int64_t{0}},
                              {"descending", false     },
                              {"stable",     true      }
  });
  const int order = importer.add_intermediate(node.name() + "_order", DType::kInt64, s.sizes(x));
  importer.program().ops.back().outputs.push_back(order);
  give_unique(s, node, sorted, order, s.sizes(self));
}

void import_unique_consecutive(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int self = s.operand("self");
  const Argument* dim = node.find_argument("dim");
  if (is_empty(s.sizes(self)) || (dim != nullptr && !dim->is_none() && s.rank(self) != 1))
    return importer.refuse(node, "of no elements, or of whole slices");
  give_unique(s, node, s.flatten(self), -1, s.sizes(self));
}

constexpr ImportRow kCountRows[] = {
    {"aten.nonzero",            import_nonzero             },
    {"aten.argwhere",           import_nonzero             },
    {"aten.nonzero_numpy",      import_nonzero_by_dimension},
    {"aten.masked_select",      import_masked_select       },
    {"aten._unique",            import_unique              },
    {"aten._unique2",           import_unique              },
    {"aten.unique_consecutive", import_unique_consecutive  },
};

bool is_mask(const Value* value) {
  return value != nullptr && value->meta && value->meta->dtype == DType::kBool;
}

}  // namespace

bool counts_when_run(const Node& node) {
  const auto is_row = [&](const ImportRow& row) { return node.is(row.op); };
  if (is_nonzero_by_where(node) ||
      std::any_of(std::begin(kCountRows), std::end(kCountRows), is_row))
    return true;
  if (!node.is("aten.index") && !node.is("aten._unsafe_index")) return false;
  const Argument* given = node.find_argument("indices");
  const OptionalTensors* optional = given == nullptr ? nullptr : given->find<OptionalTensors>();
  const auto* list = given == nullptr ? nullptr : given->find<std::vector<Value*>>();
  if (optional != nullptr)
    return std::any_of(optional->items.begin(), optional->items.end(), is_mask);
  return list != nullptr && std::any_of(list->begin(), list->end(), is_mask);
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
  const auto size_at = [&](const Dim& at) {
    return at.is_symbolic() ? parse_size(at.expr, "%" + value.name()) : SizeExpr(at.value);
  };
  for (const Dim& at : value.meta->sizes) {
    const std::set<std::string> names = size_at(at).symbols();
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return !hints_.contains(name); }))
      return size_at(at);
  }
  return size_at(value.meta->sizes[std::min(dim, value.meta->sizes.size() - 1)]);
}

int64_t Importer::most_of(const SizeExpr& size) const {
  SymbolValues greatest;
  for (const ShapeSymbol& symbol : program_.symbols) greatest[symbol.name] = symbol.max;
  for (const CountedSize& counted : counted_)
    greatest[counted.symbol.name] = counted.symbol.max;
  try {
    return std::min(size.evaluate(greatest), kLargestSize);
  } catch (const Error&) {
    return kLargestSize;  // beyond 64 bits
  }
}

int Importer::first_rows(const Node& node, int rows, int count, const SizeExpr& size) {
  Steps s(*this, node);
  for (const std::string& name : size.symbols()) {
    if (hints_.contains(name)) continue;
    if (size.steps().size() != 1) {
      refuse(node, fmt::format("gives the size {}", size.to_text()), RefusalKind::kSize);
      return -1;
    }
    const auto range = graph_.range_constraints.find(name);
    const RangeConstraint limits =
        range == graph_.range_constraints.end() ? RangeConstraint{} : range->second;
    const int64_t limit = std::min(limits.max.value_or(kLargestSize), kLargestSize);
    SizeExpr greatest = s.sizes(rows)[0];
    if (most_of(greatest) > limit) {
      greatest = minimum(greatest, limit);
      rows = s.slice(rows, 0, 0, greatest);
    }
    const int64_t hint = greatest.evaluate(hints_);
    hints_[name] = hint;
    counted_.push_back({
        {name, std::clamp<int64_t>(limits.min.value_or(0), 0, hint), most_of(greatest), hint},
        greatest
    });
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
        if (dim.is_symbolic())
          item_sizes_.merge(parse_size(dim.expr, "%" + value->name()).symbols());
}

void Importer::import_item(const Node& node) {
  if (!is_item(&node)) return;
  const Value& value = *node.outputs().front();
  Value* self = node.find_input("self");
  if (value.kind() != ValueKind::kSymInt || value.symbol.empty() || self == nullptr) return;
  const SizeExpr size = parse_size(value.symbol, "%" + value.name());
  if (size.steps().size() != 1) return;
  const std::string name = *size.symbols().begin();
  const auto range = graph_.range_constraints.find(name);
  if (hints_.contains(name) || !item_sizes_.contains(name)) return;
  if (range == graph_.range_constraints.end() || !range->second.max ||
      *range->second.max >= kLargestSize || range->second.min.value_or(-1) < 0) {
    endless_.insert(name);
    return;
  }
  Steps s(*this, node);
  // as many rows of nothing as the number can be
  const int rows = s.filled(DType::kInt64, {*range->second.max, 0}, 0);
  const int count = s.cast(s.reshape(tensor_of(self), Sizes{}), DType::kInt64);
  first_rows(node, rows, count, size);
}

void import_where_nonzero(Importer& importer, const Node& node) {
  import_nonzero_by_dimension(importer, node);
}

std::span<const ImportRow> count_import_rows() { return kCountRows; }

}  // namespace octet
