// Imports unique ops and repeat_interleave, whose result size is known only at run time.
#include <algorithm>
#include <functional>

#include "lowering/import/steps.h"

namespace octet {
namespace {

constexpr int64_t kMostColumns = 64;  // the widest slices that are sorted

Attributes reducing(const char* how) {
  return {{attr::kDim, int64_t{0}}, {attr::kReduce, std::string(how)}};
}

int everywhere(Steps& s, int64_t number, const Sizes& size) {
  return s.expand(s.indices({number}, {1}), size);
}

// Elements or rows, with equal ones next to each other.
struct Ordered {
  int x = -1;      // [n] or [n, columns]
  int order = -1;  // [n], original indices; -1: unchanged
};

// [n]: whether an element differs from the one before; true for the first.
int find_changes(Steps& s, int x) {
  const SizeExpr length = s.sizes(x)[0];
  int differs = s.compare("ne", s.slice(x, 0, 1, length - 1), s.slice(x, 0, 0, length - 1));
  if (s.rank(x) == 2) differs = s.reduce("any", differs, {1}, false, DType::kBool);
  return s.cat({s.filled(DType::kBool, {1}, 1), differs}, 0);
}

// Gives the unique elements (after `form`), the inverse (reshaped to `shape`) and the counts.
void give_unique(Steps& s, const Node& node, const Ordered& given, size_t dim, const Sizes& shape,
                 const std::function<int(int)>& form) {
  const int changes = find_changes(s, given.x);
  const int places = first_places(s, node, changes, s.new_size(dim));
  if (places < 0) return;
  const int at = column(s, places, 0);
  Sizes sizes = s.sizes(given.x);
  sizes[0] = s.sizes(at)[0];
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], form(s.op("index", {given.x, at}, sizes, s.dtype(given.x))));
  if (results.size() < 2) return;
  const int which = s.sub(s.running_sum(changes), s.filled(DType::kInt64, {}, 1));
  if (!results[1]->is_unused()) {
    const int back = given.order < 0
                         ? which
                         : s.op("scatter", {everywhere(s, 0, s.sizes(which)), given.order, which},
                                s.sizes(which), DType::kInt64, reducing("none"));
    s.give(results[1], s.reshape(back, shape));
  }
  if (results.size() < 3 || results[2]->is_unused()) return;
  const int ones = everywhere(s, 1, s.sizes(which));
  s.give(results[2], s.op("scatter", {everywhere(s, 0, s.sizes(at)), which, ones}, s.sizes(at),
                          DType::kInt64, reducing("sum")));
}

// Sorts rows lexicographically.
Ordered ordered_rows(Steps& s, const Node& node, int x, int64_t columns) {
  Ordered result{x, s.numbers(s.sizes(x)[0])};
  const Sizes length = {s.sizes(x)[0]};
  for (int64_t c = columns - 1; c >= 0; --c) {
    const int keys = s.op("index", {column(s, x, c), result.order}, length, s.dtype(x));
    const int order = sorted_along(s, node, keys, 0).indices;
    result.order = s.op("index", {result.order, order}, length, DType::kInt64);
  }
  result.x = s.op("index", {x, result.order}, s.sizes(x), s.dtype(x));
  return result;
}

bool is_empty(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [](const SizeExpr& size) { return size.is_number() && size.number() == 0; });
}

void refuse_form(const Steps& s, const char* why) { s.refuse(why, RefusalKind::kSize); }

void give_unique_elements(Steps& s, const Node& node, bool is_sorted) {
  const int self = s.operand("self"), x = s.flatten(self);
  if (is_empty(s.sizes(self))) return refuse_form(s, "has no elements");
  Ordered given{x};
  if (!is_sorted) {
    const Sorted sorted = sorted_along(s, node, x, 0);
    given = {sorted.values, sorted.indices};
  }
  give_unique(s, node, given, 0, s.sizes(self), [](int values) { return values; });
}

void give_unique_slices(Steps& s, const Node& node, bool is_sorted) {
  const int self = s.at_least_1d(s.operand("self"));
  const size_t dim = s.dim_of(self, node.int_or("dim", 0));
  // torch 2.13 records another shape for dimensions from the end
  const Value& result = *node.outputs().front();
  if (result.meta && result.meta->sizes.size() != s.rank(self))
    return refuse_form(s,
                       "is along a dimension from the end, for which torch.export recorded a wrong "
                       "shape; count it from the front");
  std::vector<int64_t> first = {static_cast<int64_t>(dim)}, back;
  for (size_t d = 0; d < s.rank(self); ++d)
    if (d != dim) first.push_back(static_cast<int64_t>(d));
  for (size_t d = 0; d < s.rank(self); ++d)
    back.push_back(d == dim ? 0 : static_cast<int64_t>(d < dim ? d + 1 : d));
  const int moved = s.permute(self, first);
  Sizes shape = s.sizes(moved);
  const SizeExpr columns = element_count(std::vector<SizeExpr>(shape.begin() + 1, shape.end()));
  if (is_empty(shape) || !columns.is_number() || (!is_sorted && columns.number() > kMostColumns))
    return refuse_form(s, "has no elements, or slices of more than 64 elements");
  const int rows = s.reshape(moved, {shape[0], columns});
  give_unique(s, node, is_sorted ? Ordered{rows} : ordered_rows(s, node, rows, columns.number()),
              dim, {shape[0]}, [&](int values) {
                shape[0] = s.sizes(values)[0];
                return s.permute(s.reshape(values, shape), back);
              });
}

void import_unique(Steps& s, const Node& node) { give_unique_elements(s, node, false); }
void import_unique_dim(Steps& s, const Node& node) { give_unique_slices(s, node, false); }
void import_unique_consecutive(Steps& s, const Node& node) {
  const Argument* dim = node.find_argument("dim");
  dim == nullptr || dim->is_none() ? give_unique_elements(s, node, true)
                                   : give_unique_slices(s, node, true);
}

// Repeats each slice as often as its count says.
void import_repeat_interleave(Steps& s, const Node& node) {
  if (node.find_input("repeats") == nullptr) return import_equal_repeats(s, node);
  const bool is_flat = !is_given(node, "dim");
  const int x = is_flat ? s.flatten(s.self()) : s.self();
  const size_t dim = is_flat ? 0 : s.dim_of(x, node.int_or("dim", 0));
  const SizeExpr length = s.sizes(x)[dim];
  const int repeats =
      s.expand(s.at_least_1d(s.cast(s.operand("repeats"), DType::kInt64)), {length});
  if (is_empty({length})) return refuse_form(s, "has no elements");
  const int ends = s.running_sum(repeats);
  const SizeExpr size = s.new_size(dim);
  const int count = s.reshape(s.slice(ends, 0, length - 1, 1), Sizes{});
  if (s.first_numbers(count, size) < 0) return;
  const int place = s.reshape(s.numbers(size), {size, 1});
  const int index = s.reduce("sum", s.compare("ge", place, ends), {1}, false, DType::kInt64);
  std::vector<int> inputs = {x};
  inputs.resize(1 + dim, -1);
  inputs.push_back(index);
  Sizes sizes = s.sizes(x);
  sizes[dim] = size;
  s.give(s.op("index", std::move(inputs), sizes, s.dtype(x)));
}

constexpr ImportRow kUniqueRows[] = {
    {"aten._unique", import_unique},
    {"aten._unique2", import_unique},
    {"aten.unique_dim", import_unique_dim},
    {"aten.unique_consecutive", import_unique_consecutive},
    {"aten.repeat_interleave", import_repeat_interleave},
};

}  // namespace

std::span<const ImportRow> unique_import_rows() { return kUniqueRows; }

}  // namespace octet
