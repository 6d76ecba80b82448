// Imports ops whose number of results depends on the values of their input (nonzero, selection by a
// mask), and item() where its number is a size.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/steps.h"
#include "lowering/program/symbols.h"

namespace octet {

Places find_places(Steps& s, const Node& node, int x) {
  Places places;
  const Sizes rows = {element_count(s.sizes(x)), static_cast<int64_t>(s.rank(x))};
  places.rows = s.op("nonzero", {x}, rows, DType::kInt64);
  places.count = s.add_result(node.name() + "_count", DType::kInt64, {});
  return places;
}

int first_places(Steps& s, const Node& node, int x, const SizeExpr& size) {
  const Places places = find_places(s, node, x);
  return s.first_rows(places.rows, places.count, size);
}

int column(Steps& s, int rows, int64_t d) {
  return s.reshape(s.slice(rows, 1, d, 1), {s.sizes(rows)[0]});
}

// Gives a tensor of indices for each dimension.
void import_nonzero_by_dimension(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.operand({"self", "condition"}));
  const int places = first_places(s, node, x, s.new_size());
  if (places < 0) return;
  const std::vector<Value*> results = node.outputs();
  for (size_t d = 0; d < std::min(results.size(), s.rank(x)); ++d)
    s.give(results[d], column(s, places, static_cast<int64_t>(d)));
}

namespace {

void import_nonzero(Steps& s, const Node& node) {
  const int x = s.operand("self");
  const int places = first_places(s, node, x, s.new_size());
  if (places >= 0) s.give(places);
}

// The call fixes the number of rows; rows after the last match get the fill value.
void import_nonzero_static(Steps& s, const Node& node) {
  const Places places = find_places(s, node, s.operand("self"));
  const SizeExpr found = s.sizes(places.rows)[0], wanted = s.size_argument(node, "size", 0);
  if (!found.is_number() || !wanted.is_number()) return s.refuse("of sizes that are not fixed");
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

void import_masked_select(Steps& s, const Node& node) {
  int x = s.operand("self"), mask = s.operand("mask");
  const Sizes sizes = broadcast(s.sizes(x), s.sizes(mask));
  // torch 2.13 records the number of elements of x as the maximum, though broadcasting against the
  // mask may repeat x.
  const bool has_range = s.sizes(x) == sizes;
  x = s.flatten(s.expand(x, sizes));
  const Places places = find_places(s, node, s.flatten(s.expand(mask, sizes)));
  const int rows = s.first_rows(places.rows, places.count, s.new_size(), has_range);
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

// Replaces each mask by one tensor of indices for each of its dimensions.
void import_index_by_mask(Steps& s, const Node& node, int x, const std::vector<int>& indices) {
  std::vector<int> inputs = {x};
  for (int index : indices) {
    if (index < 0 || s.dtype(index) != DType::kBool) {
      inputs.push_back(index);
      continue;
    }
    if (s.rank(index) == 0) return s.refuse("by a mask without dimensions");
    const size_t before = static_cast<size_t>(inputs.size() - 1);
    const int places = first_places(s, node, index, s.new_size(before));
    if (places < 0) return;
    for (size_t d = 0; d < s.rank(index); ++d)
      inputs.push_back(column(s, places, static_cast<int64_t>(d)));
  }
  while (inputs.size() > 1 && inputs.back() < 0) inputs.pop_back();
  s.emit("index", std::move(inputs));
}

int Steps::first_rows(int rows, int count, const SizeExpr& size, bool has_range) {
  SizeTable& table = size_table();
  for (const std::string& name : size.symbols()) {
    if (table.is_known(name)) continue;
    if (size.steps().size() != 1) {
      refuse(fmt::format("gives the size {}", size.to_text()), RefusalKind::kSize);
      return -1;
    }
    const RangeConstraint limits = has_range ? table.range_of(name) : RangeConstraint{};
    const int64_t limit = std::min(limits.max.value_or(kLargestSize), kLargestSize);
    SizeExpr greatest = sizes(rows)[0];
    if (table.most_of(greatest) > limit) {
      greatest = minimum(greatest, limit);
      rows = slice(rows, 0, 0, greatest);
    }
    const int64_t hint = table.example(greatest);
    table.add_counted({{name, std::clamp<int64_t>(limits.min.value_or(0), 0, hint),
                        table.most_of(greatest), hint},
                       greatest});
  }
  const Sizes wanted = {size, sizes(rows)[1]};
  if (tensor(rows).shape[0] != table.example(size)) rows = slice(rows, 0, 0, size);
  return op(kFirstRows, {rows, count}, wanted, DType::kInt64);
}

int Steps::first_numbers(int count, const SizeExpr& size) {
  SizeTable& table = size_table();
  int64_t most = size.is_number() ? size.number() : table.most_of(size);
  for (const std::string& name : size.symbols()) {
    if (table.is_known(name)) continue;
    const RangeConstraint limits = table.range_of(name);
    most = limits.max.value_or(kLargestSize);
    if (most < kLargestSize && limits.min.value_or(0) >= 0) continue;
    table.mark_endless(name);
    refuse(table.refusal_of(name), RefusalKind::kSize);
    return -1;
  }
  // first_rows needs rows: use empty ones, as many as the number can be
  return first_rows(filled(DType::kInt64, {most, 0}, 0), count, size);
}

void import_item(Importer& importer, const Node& node) {
  if (!is_item(node)) return;
  const Value& value = *node.outputs().front();
  Value* self = node.find_input("self");
  if (value.kind() != ValueKind::kSymInt || value.symbol.empty() || self == nullptr) return;
  SizeTable& table = importer.sizes();
  const SizeExpr size = table.formula_of(value.symbol, value);
  if (size.steps().size() != 1) return;
  const std::string name = *size.symbols().begin();
  if (table.is_known(name) || !table.is_item_size(name)) return;
  const RangeConstraint limits = table.range_of(name);
  if (limits.max.value_or(kLargestSize) >= kLargestSize || limits.min.value_or(-1) < 0) {
    table.mark_endless(name);
    return;
  }
  Steps s(importer, node);
  s.first_numbers(s.cast(s.reshape(s.tensor_of(self), Sizes{}), DType::kInt64), size);
}

std::span<const ImportRow> count_import_rows() { return kCountRows; }

}  // namespace octet
