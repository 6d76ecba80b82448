// Imports data movement that other ops compose: repeats, rolls, triangles, writes into parts, and
// aliases of views.
#include <algorithm>
#include <numeric>

#include "lowering/import/steps.h"

namespace octet {
namespace {

std::vector<int64_t> dims_or(const Node& node, const char* name, size_t rank,
                             std::vector<int64_t> fallback) {
  std::vector<int64_t> dims = node.ints_or(name, std::move(fallback));
  for (int64_t& dim : dims) dim = positive_dim(dim, rank);
  return dims;
}

// ---- orders of dimensions

void import_swapaxes(Steps& s, const Node& node) {
  const char* first = node.find_argument("axis0") != nullptr ? "axis0" : "dim0";
  const char* second = node.find_argument("axis1") != nullptr ? "axis1" : "dim1";
  s.give(s.transpose(s.self(), node.int_or(first, 0), node.int_or(second, 1)));
}

void import_movedim(Steps& s, const Node& node) {
  const int x = s.self();
  const std::vector<int64_t> from = dims_or(node, "source", s.rank(x), {}),
                             to = dims_or(node, "destination", s.rank(x), {});
  std::vector<int64_t> order(s.rank(x), -1);
  for (size_t i = 0; i < from.size(); ++i) order[static_cast<size_t>(to[i])] = from[i];
  int64_t next = 0;
  for (int64_t& dim : order) {
    if (dim >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    dim = next++;
  }
  s.give(s.permute(x, order));
}

// mT, mH, adjoint of reals (last two dimensions) and numpy_T (all dimensions).
void import_matrix_transpose(Steps& s, const Node&) { s.give(s.transpose(s.self(), -2, -1)); }
void import_reverse_dims(Steps& s, const Node&) {
  const int x = s.self();
  std::vector<int64_t> order(s.rank(x));
  std::iota(order.rbegin(), order.rend(), 0);
  s.give(s.permute(x, order));
}

// ---- repeats

// repeats: one for each dimension of the result; x has the trailing ones.
int repeated_blocks(Steps& s, int x, const std::vector<int64_t>& repeats) {
  Sizes sizes = s.sizes(x);
  while (sizes.size() < repeats.size()) sizes.insert(sizes.begin(), 1);
  Sizes apart, wide, joined;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] != 1) apart.push_back(1);
    apart.push_back(sizes[d]);
    if (repeats[d] != 1) wide.push_back(repeats[d]);
    wide.push_back(sizes[d]);
    joined.push_back(sizes[d] * SizeExpr(repeats[d]));
  }
  return s.reshape(s.expand(s.reshape(x, apart), wide), joined);
}

void import_repeat(Steps& s, const Node& node) {
  const char* name = node.find_argument("repeats") != nullptr ? "repeats" : "dims";
  const int x = s.self();
  const Sizes counts = s.sizes_argument(node, name);
  std::vector<int64_t> repeats;
  for (const SizeExpr& count : counts) {
    if (!count.is_number()) {
      // a dimension of size 1 is only expanded
      Sizes wanted = s.result_sizes();
      return s.give(s.expand(s.reshape(x,
                                       [&] {
                                         Sizes sizes = s.sizes(x);
                                         while (sizes.size() < wanted.size())
                                           sizes.insert(sizes.begin(), 1);
                                         return sizes;
                                       }()),
                             wanted));
    }
    repeats.push_back(count.number());
  }
  // tile may have fewer repeats than dimensions
  while (repeats.size() < s.rank(x)) repeats.insert(repeats.begin(), 1);
  s.give(repeated_blocks(s, x, repeats));
}

void import_roll(Steps& s, const Node& node) {
  const int given = s.self();
  const std::vector<int64_t> shifts = node.ints_or("shifts", {});
  const std::vector<int64_t> dims = dims_or(node, "dims", s.rank(given), {});
  int x = dims.empty() ? s.flatten(given) : given;
  for (size_t i = 0; i < shifts.size(); ++i) {
    const size_t dim = dims.empty() ? 0 : static_cast<size_t>(dims[i]);
    const SizeExpr size = s.sizes(x)[dim];
    if (size == SizeExpr(0)) continue;
    const SizeExpr shift = SizeExpr::join(SizeExpr::Kind::kModulo, shifts[i], maximum(size, 1));
    if (shift == SizeExpr(0)) continue;
    const auto at = static_cast<int64_t>(dim);
    x = s.op("cat", {s.slice(x, at, size - shift, shift), s.slice(x, at, 0, size - shift)},
             s.sizes(x), s.dtype(x), {{attr::kDim, at}});
  }
  s.give(s.reshape(x, s.sizes(given)));
}

void import_flip(Steps& s, const Node& node) {
  const int x = s.self();
  s.give(s.op("flip", {x}, s.sizes(x), s.dtype(x),
              {{attr::kDims, dims_or(node, "dims", s.rank(x), {})}}));
}

void import_meshgrid(Steps& s, const Node& node) {
  std::vector<int> inputs = s.tensors("tensors");
  const std::string word = text_argument(node, "indexing");
  std::vector<size_t> place(inputs.size());
  std::iota(place.begin(), place.end(), 0);
  if (word == "xy" && inputs.size() >= 2) std::swap(place[0], place[1]);
  Sizes wanted(inputs.size(), SizeExpr(1));
  for (size_t i = 0; i < inputs.size(); ++i)
    wanted[place[i]] = s.rank(inputs[i]) == 0 ? SizeExpr(1) : s.sizes(inputs[i])[0];
  for (size_t i = 0; i < inputs.size(); ++i) {
    Sizes line(inputs.size(), SizeExpr(1));
    line[place[i]] = wanted[place[i]];
    s.give(node.outputs()[i], s.expand(s.reshape(inputs[i], line), wanted));
  }
}

void import_broadcast_tensors(Steps& s, const Node& node) {
  std::vector<int> inputs = s.tensors("tensors");
  for (size_t i = 0; i < inputs.size(); ++i)
    s.give(node.outputs()[i], s.expand(inputs[i], s.sizes_of(*node.outputs()[i])));
}

// hstack, vstack, dstack, column_stack: cat after each tensor has enough dimensions.
void import_stack_along(Steps& s, const Node& node) {
  const bool is_column = node.is("aten.column_stack");
  const size_t least = node.is("aten.hstack") ? 1 : node.is("aten.dstack") ? 3 : 2;
  std::vector<int> inputs = s.tensors("tensors");
  for (int& input : inputs) {
    Sizes sizes = s.sizes(input);
    while (is_column && sizes.size() < 2) sizes.push_back(1);
    while (sizes.size() < std::min<size_t>(least, 2)) sizes.insert(sizes.begin(), 1);
    while (sizes.size() < least) sizes.push_back(1);
    input = s.reshape(input, sizes);
  }
  const bool is_first =
      node.is("aten.vstack") || (node.is("aten.hstack") && s.rank(inputs[0]) == 1);
  s.give(s.cat(inputs, is_first ? 0 : node.is("aten.dstack") ? 2 : 1));
}

// ---- triangles

Tensor triangle(int64_t rows, int64_t columns, int64_t diagonal, bool is_lower) {
  const Tensor mask = Tensor::zeros(DType::kBool, {rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      mask.data<bool>()[i * columns + j] = is_lower ? j - i <= diagonal : j - i >= diagonal;
  return mask;
}

// tril, triu. Open sizes compare row and column numbers.
void import_triangle(Steps& s, const Node& node) {
  const bool is_lower = node.is("aten.tril");
  const int x = s.self();
  const Sizes sizes = s.sizes(x);
  const SizeExpr rows = sizes[sizes.size() - 2], columns = sizes.back(),
                 diagonal = s.size_argument(node, "diagonal", 0);
  int mask = -1;
  if (rows.is_number() && columns.is_number() && diagonal.is_number()) {
    mask = s.add_constant(node.name() + "_triangle",
                          triangle(rows.number(), columns.number(), diagonal.number(), is_lower));
  } else {
    int row = s.reshape(s.numbers(rows), {rows, 1});
    const int column = s.reshape(s.numbers(columns), {1, columns});
    if (diagonal != SizeExpr(0)) row = s.add(row, s.size(diagonal));
    mask = s.compare(is_lower ? "le" : "ge", column, row);
  }
  s.give(s.where(mask, x, s.number(0, x)));
}

// ---- parts of a tensor written

void import_slice_scatter(Steps& s, const Node& node) {
  const int x = s.self();
  const size_t dim = s.dim_of(x, node.int_or("dim", 0));
  const SliceRange range = slice_range(s, node, s.sizes(x)[dim]);
  s.give(s.put_slice(x, dim, range.start, node.int_or("step", 1), s.operand("src"), range.to_end));
}

void import_select_scatter(Steps& s, const Node& node) {
  const int x = s.self();
  const size_t dim = s.dim_of(x, node.int_or("dim", 0));
  s.give(s.put_slice(x, dim, select_place(s, node, s.sizes(x)[dim]), 1,
                     s.unsqueeze(s.operand("src"), static_cast<int64_t>(dim))));
}

void import_expand_to(Steps& s, const Node&) { s.give(s.expand(s.self(), s.result_sizes())); }

constexpr ImportRow kRearrangeRows[] = {
    {"aten.swapaxes", import_swapaxes},
    {"aten.swapdims", import_swapaxes},
    {"aten.movedim", import_movedim},
    {"aten.moveaxis", import_movedim},
    {"aten.mT", import_matrix_transpose},
    {"aten.mH", import_matrix_transpose},
    {"aten.adjoint", import_matrix_transpose},
    {"aten.numpy_T", import_reverse_dims},
    {"aten.repeat", import_repeat},
    {"aten.tile", import_repeat},
    {"aten.roll", import_roll},
    {"aten.flip", import_flip},
    {"aten.meshgrid", import_meshgrid},
    {"aten.broadcast_tensors", import_broadcast_tensors},
    {"aten.broadcast_to", import_expand_to},
    {"aten.hstack", import_stack_along},
    {"aten.vstack", import_stack_along},
    {"aten.dstack", import_stack_along},
    {"aten.column_stack", import_stack_along},
    {"aten.tril", import_triangle},
    {"aten.triu", import_triangle},
    {"aten.slice_scatter", import_slice_scatter},
    {"aten.select_scatter", import_select_scatter},
};

}  // namespace

void import_equal_repeats(Steps& s, const Node& node) {
  int x = s.self();
  const int64_t repeats = node.int_or("repeats", 1);
  const Argument* dim = node.find_argument("dim");
  const bool is_flat = dim == nullptr || dim->is_none();
  if (is_flat) x = s.flatten(x);
  const size_t at = is_flat ? 0 : s.dim_of(x, node.int_or("dim", 0));
  Sizes apart = s.sizes(x), joined = apart;
  apart.insert(apart.begin() + static_cast<int64_t>(at) + 1, 1);
  Sizes wide = apart;
  wide[at + 1] = repeats;
  joined[at] = joined[at] * SizeExpr(repeats);
  s.give(s.reshape(s.expand(s.reshape(x, apart), wide), joined));
}

std::span<const ImportRow> rearrange_import_rows() { return kRearrangeRows; }

}  // namespace octet
