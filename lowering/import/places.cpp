// Imports diagonals and aten.as_strided: elements at positions that are known when lowering.
#include <algorithm>
#include <set>

#include "core/base/shape.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// ---- diagonals of two dimensions

// How to bring both dimensions to the end and join them, and the positions of the diagonal there.
struct Diagonal {
  std::vector<int64_t> order;  // the permutation of dimensions
  Sizes apart, flat;           // sizes with the two last, and with them joined
  std::vector<int64_t> places;
};

std::optional<Diagonal> find_diagonal(Steps& s, const Node& node, int x) {
  Diagonal diagonal;
  const size_t first = s.dim_of(x, node.int_or("dim1", 0)),
               second = s.dim_of(x, node.int_or("dim2", 1));
  const Sizes sizes = s.sizes(x);
  if (!sizes[first].is_number() || !sizes[second].is_number()) return std::nullopt;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (d != first && d != second) diagonal.order.push_back(static_cast<int64_t>(d));
  diagonal.order.push_back(static_cast<int64_t>(first));
  diagonal.order.push_back(static_cast<int64_t>(second));
  for (int64_t dim : diagonal.order) diagonal.apart.push_back(sizes[static_cast<size_t>(dim)]);
  const int64_t rows = sizes[first].number(), columns = sizes[second].number();
  diagonal.flat = diagonal.apart;
  diagonal.flat.pop_back();
  diagonal.flat.back() = rows * columns;
  const int64_t offset = node.int_or("offset", 0);
  for (int64_t i = 0; i < rows; ++i)
    if (i + offset >= 0 && i + offset < columns)
      diagonal.places.push_back(i * columns + i + offset);
  return diagonal;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d)
    inverse[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return inverse;
}

// For open sizes: with both dimensions joined, consecutive diagonal elements are one row and one
// column apart.
void import_open_diagonal(Steps& s, const Node& node, int x) {
  const size_t first = s.dim_of(x, node.int_or("dim1", 0)),
               second = s.dim_of(x, node.int_or("dim2", 1));
  const Sizes sizes = s.sizes(x), wanted = s.result_sizes();
  std::vector<int64_t> order;
  Sizes flat;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d == first || d == second) continue;
    order.push_back(static_cast<int64_t>(d));
    flat.push_back(sizes[d]);
  }
  order.push_back(static_cast<int64_t>(first));
  order.push_back(static_cast<int64_t>(second));
  const SizeExpr rows = sizes[first], columns = sizes[second];
  flat.push_back(rows * columns);
  const int64_t offset = node.int_or("offset", 0);
  int places = s.mul(s.numbers(wanted.back()), s.size(columns + 1));
  if (offset != 0)
    places = s.add(places, s.size(offset > 0 ? SizeExpr(offset) : SizeExpr(-offset) * columns));
  std::vector<int> inputs = {s.reshape(s.permute(x, order), flat)};
  inputs.resize(flat.size(), -1);
  inputs.push_back(places);
  s.give(s.op("index", std::move(inputs), wanted, s.dtype(x)));
}

void import_diagonal(Steps& s, const Node& node) {
  const int x = s.self();
  const std::optional<Diagonal> diagonal = find_diagonal(s, node, x);
  if (!diagonal) return import_open_diagonal(s, node, x);
  s.give(s.take(s.reshape(s.permute(x, diagonal->order), diagonal->flat), -1, diagonal->places));
}

void import_trace(Steps& s, const Node& node) {
  const int x = s.self();
  const std::optional<Diagonal> diagonal = find_diagonal(s, node, x);
  if (!diagonal) return s.refuse("of dimensions whose sizes are not fixed");
  const int taken = s.take(s.reshape(x, diagonal->flat), 0, diagonal->places);
  s.give(s.reduce("sum", taken, {}, false, node.outputs().front()->meta->dtype));
}

int with_diagonal(Steps& s, int x, const Diagonal& diagonal, int source) {
  const int flat = s.reshape(s.permute(x, diagonal.order), diagonal.flat);
  const int put = s.put_at(flat, s.rank(flat) - 1, diagonal.places, source);
  return s.permute(s.reshape(put, diagonal.apart), inverse_of(diagonal.order));
}

void import_diagonal_scatter(Steps& s, const Node& node) {
  const int x = s.self();
  const std::optional<Diagonal> diagonal = find_diagonal(s, node, x);
  if (!diagonal) return s.refuse("of dimensions whose sizes are not fixed");
  s.give(with_diagonal(s, x, *diagonal, s.operand("src")));
}

// ---- views of the memory of a tensor that has no gaps

// The position in the tensor of each element of the result; empty if it cannot be determined.
std::vector<int64_t> find_strided_places(const Node& node) {
  const Value* value = node.find_input("self");
  const std::vector<int64_t> sizes = node.ints_or("size", {}), strides = node.ints_or("stride", {});
  constexpr int64_t kMost = int64_t{1} << 24;
  const bool is_known = value != nullptr && value->meta && value->meta->is_static() &&
                        sizes.size() == strides.size() && product(sizes) <= kMost;
  if (is_known) {
    std::vector<int64_t> own;
    for (const Dim& stride : value->meta->strides) own.push_back(stride.value);
    // The offset counts from the start of the memory, not from that of a view. The runtime gives
    // each input separate memory, even if the example input was a view.
    const int64_t begin = value->producer() == nullptr ? 0 : value->meta->storage_offset.value;
    std::vector<int64_t> places(static_cast<size_t>(product(sizes)),
                                node.int_or("storage_offset", begin) - begin);
    const int64_t count = product(value->meta->shape());
    for (size_t i = 0; i < places.size(); ++i) {
      auto rest = static_cast<int64_t>(i);
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d])
        places[i] += rest % sizes[d] * strides[d];
    }
    const bool fits = std::all_of(places.begin(), places.end(),
                                  [&](int64_t place) { return place >= 0 && place < count; });
    if (fits && !places.empty() && own == contiguous_strides(value->meta->shape())) return places;
  }
  return {};
}

std::vector<int64_t> strided_places(Steps& s, const Node& node) {
  std::vector<int64_t> places = find_strided_places(node);
  if (places.empty()) s.refuse("of memory that is not one tensor's without gaps, of fixed size");
  return places;
}

bool has_duplicates(const std::vector<int64_t>& places) {
  return std::set<int64_t>(places.begin(), places.end()).size() != places.size();
}

void import_as_strided(Steps& s, const Node& node) {
  const std::vector<int64_t> places = strided_places(s, node);
  if (!places.empty()) s.give(s.take(s.flatten(s.self()), 0, places));
}

void import_as_strided_scatter(Steps& s, const Node& node) {
  const std::vector<int64_t> places = strided_places(s, node);
  if (places.empty()) return;
  if (has_duplicates(places)) return s.refuse("with overlapping elements");
  s.give(s.put_at(s.flatten(s.self()), 0, places, s.flatten(s.operand("src"))));
}

constexpr ImportRow kPlaceRows[] = {
    {"aten.diagonal", import_diagonal},
    {"aten.trace", import_trace},
    {"aten.diagonal_scatter", import_diagonal_scatter},
    {"aten.as_strided", import_as_strided},
    {"aten.as_strided_scatter", import_as_strided_scatter},
};

}  // namespace

int put_diagonal(Steps& s, const Node& view, int base, int written) {
  const std::optional<Diagonal> diagonal = find_diagonal(s, view, base);
  return diagonal ? with_diagonal(s, base, *diagonal, written) : -1;
}

int put_strided(Steps& s, const Node& view, int base, int written) {
  const std::vector<int64_t> places = find_strided_places(view);
  if (places.empty() || has_duplicates(places)) return -1;
  return s.reshape(s.put_at(s.flatten(base), 0, places, s.flatten(written)), s.sizes(base));
}

std::span<const ImportRow> place_import_rows() { return kPlaceRows; }

}  // namespace octet
