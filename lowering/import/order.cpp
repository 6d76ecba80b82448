// What elements are in their order, how many are below others, and where those of a set are.
#include <algorithm>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// ---- one of the sorted

struct Sorted {
  int values, indices;
  int64_t dim;
};

Sorted sorted_along(Importer& importer, Steps& s, const Node& node, int x, int64_t dim) {
  Sorted sorted{-1, -1, static_cast<int64_t>(s.dim_of(x, dim))};
  sorted.values =
      s.op("sort",
           {
               x
  },
           s.sizes(x), s.dtype(x), {{"dim", sorted.dim}, {"descending", false}, {"stable", true}});
  sorted.indices = importer.add_intermediate(node.name() + "_order", DType::kInt64, s.sizes(x));
  importer.program().ops.back().outputs.push_back(sorted.indices);
  return sorted;
}

// The elements at `place`, int64 and 1 along the dimension.
void give_sorted(Steps& s, const Node& node, const Sorted& sorted, int place) {
  const auto taken = [&](int x) {
    return s.op("gather",
                {
                    x, place
    },
                s.sizes(place), s.dtype(x), {{"dim", sorted.dim}});
  };
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], taken(sorted.values));
  if (results.size() > 1) s.give(results[1], taken(sorted.indices));
}

// x along its dimension; without one, all elements in a row.
int along_or_flat(Steps& s, const Node& node, int x) {
  x = s.at_least_1d(x);
  const Argument* dim = node.find_argument("dim");
  if (dim != nullptr && !dim->is_none()) return x;
  return s.flatten(x);
}

void import_kthvalue(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.at_least_1d(s.self());
  const Sorted sorted = sorted_along(importer, s, node, x, node.int_or("dim", -1));
  Sizes one = s.sizes(x);
  one[static_cast<size_t>(sorted.dim)] = 1;
  const int place = s.indices({node.int_or("k", 1) - 1}, std::vector<int64_t>(s.rank(x), 1));
  give_sorted(s, node, sorted, s.expand(place, one));
}

// The lower of two in the middle. NaN comes last in the order: where there is one the median is it,
// and nanmedian is that of the others.
void import_median(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = along_or_flat(s, node, s.self());
  const int64_t dim = node.int_or("dim", s.rank(x) == 1 ? 0 : -1);
  const SizeExpr size = s.sizes(x)[s.dim_of(x, dim)];
  if (!size.is_number() || size.number() < 1)
    return importer.refuse(node, "along a dimension that is empty or whose size is not fixed");
  const int64_t count = size.number();
  const Sorted sorted = sorted_along(importer, s, node, x, dim);
  const int missing = s.reduce("sum", s.compare("ne", x, x), {sorted.dim}, true, DType::kInt64);
  const int middle = s.filled(DType::kInt64, {}, static_cast<double>((count - 1) / 2));
  const int all = s.filled(DType::kInt64, {}, static_cast<double>(count));
  const int known = s.op("sub", {all, missing}, s.sizes(missing), DType::kInt64);
  int place;
  if (node.is("aten.nanmedian")) {
    const int before = s.sub(known, s.filled(DType::kInt64, {}, 1));
    const int half = s.binary("div_floor", before, s.filled(DType::kInt64, {}, 2), DType::kInt64);
    place = s.arithmetic("maximum", half, s.filled(DType::kInt64, {}, 0));
  } else {
    const int zero = s.filled(DType::kInt64, {}, 0);
    place = s.where(s.compare("gt", missing, zero), known, middle);
  }
  give_sorted(s, node, sorted, place);
}

void import_aminmax(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.at_least_1d(s.self());
  const Argument* dim = node.find_argument("dim");
  std::vector<int64_t> dims;
  if (dim != nullptr && !dim->is_none()) dims = {node.int_or("dim", 0)};
  const bool keeps = node.bool_or("keepdim", false);
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], s.reduce("min", x, dims, keeps));
  s.give(results[1], s.reduce("max", x, dims, keeps));
}

// ---- beside others

// [.., N, 1] and [.., M] compared; how many of the M for each of the N.
int count_of(Steps& s, const char* function, int x, int others, bool is_row) {
  const int wide = s.unsqueeze(x, static_cast<int64_t>(s.rank(x)));
  const int row = is_row ? others : s.unsqueeze(others, static_cast<int64_t>(s.rank(others)) - 1);
  return s.reduce("sum", s.compare(function, wide, row), {-1}, false, DType::kInt64);
}

// How many of an ascending sequence are below x (right: not above it).
void import_searchsorted(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self(), sequence = s.operand("sorted_sequence");
  const Argument* sorter = node.find_argument("sorter");
  if (sorter != nullptr && !sorter->is_none())
    return importer.refuse(node, "with an order of the sequence");
  const Argument* side = node.find_argument("side");
  const std::string* word = side == nullptr ? nullptr : side->find<std::string>();
  const bool is_right = node.bool_or("right", false) || (word != nullptr && *word == "right");
  s.give(count_of(s, is_right ? "ge" : "gt", x, sequence, s.rank(sequence) == 1));
}

void import_isin(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand({"elements", "element"});
  const int others = s.operand({"test_elements", "test_element"});
  if (x < 0 || others < 0) return importer.refuse(node, "without two operands");
  const int found = count_of(s, "eq", x, s.flatten(others), true);
  s.give(s.compare(node.bool_or("invert", false) ? "eq" : "gt", found,
                   s.filled(DType::kInt64, {}, 0)));
}

constexpr ImportRow kOrderRows[] = {
    {"aten.kthvalue",     import_kthvalue    },
    {"aten.median",       import_median      },
    {"aten.nanmedian",    import_median      },
    {"aten.aminmax",      import_aminmax     },
    {"aten.searchsorted", import_searchsorted},
    {"aten.isin",         import_isin        },
};

}  // namespace

std::span<const ImportRow> order_import_rows() { return kOrderRows; }

}  // namespace octet
