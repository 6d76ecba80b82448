// Follows channels through reshapes by matching runs of dimensions with equal products: [2, 12, 64]
// -> [2, 3, 4, 64] has the runs 2 | 12 = 3 * 4 | 64.
#include <algorithm>
#include <numeric>

#include "annotate/accuracy/channel_space.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/shape.h"

namespace octet {
namespace {

constexpr std::array<std::string_view, 8> kReshapes = {
    "aten.view",    "aten.reshape",   "aten.flatten",      "aten.unflatten",
    "aten.squeeze", "aten.unsqueeze", "aten._unsafe_view", "aten.view_copy"};

// A run of dimensions of each side, [first, last), that hold the same elements.
struct Run {
  size_t from_first, from_last, to_first, to_last;
};

// Splits the shapes into the shortest runs; trailing dimensions of size 1 belong to the last run.
std::vector<Run> equal_runs(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<Run> runs;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() && j < to.size()) {
    Run run{i, i + 1, j, j + 1};
    int64_t a = from[i++];
    int64_t b = to[j++];
    while (a != b) {
      if (a < b && i < from.size()) {
        a *= from[i++];
      } else if (b < a && j < to.size()) {
        b *= to[j++];
      } else {
        return {};
      }
    }
    run.from_last = i;
    run.to_last = j;
    runs.push_back(run);
  }
  if (runs.empty()) return runs;
  runs.back().from_last = from.size();
  runs.back().to_last = to.size();
  return runs;
}

// The dimensions of [first, last) with more than one element.
ChannelDims wide_dims(const std::vector<int64_t>& shape, size_t first, size_t last) {
  ChannelDims dims;
  for (size_t i = first; i < last; ++i)
    if (shape[i] != 1) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

std::vector<int64_t> permutation_of(const Node& node, int64_t rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const auto positive = [rank](int64_t dim) { return wrap_dim(dim, rank); };
  if (node.is("aten.permute")) {
    std::vector<int64_t> dims = node.ints_or("dims", {});
    std::transform(dims.begin(), dims.end(), dims.begin(), positive);
    return dims;
  }
  const int64_t first = positive(node.int_or("dim0", 0));
  const int64_t second = positive(node.int_or("dim1", 0));
  if (first < 0 || second < 0 || first >= rank || second >= rank) return {};
  std::swap(order[static_cast<size_t>(first)], order[static_cast<size_t>(second)]);
  return order;
}

}  // namespace

std::optional<ChannelDims> dims_after_reshape(const std::vector<int64_t>& from,
                                              const std::vector<int64_t>& to,
                                              const ChannelDims& dims) {
  ChannelDims rest;  // without those of size 1
  for (int64_t dim : dims)
    if (from.at(static_cast<size_t>(dim)) != 1) rest.push_back(dim);
  ChannelDims result;
  const std::vector<Run> runs = equal_runs(from, to);
  for (size_t next = 0; next < rest.size();) {
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& r) {
      return static_cast<size_t>(rest[next]) >= r.from_first &&
             static_cast<size_t>(rest[next]) < r.from_last;
    });
    if (run == runs.end()) return std::nullopt;
    const ChannelDims in_run = wide_dims(from, run->from_first, run->from_last);
    if (rest.size() - next < in_run.size() ||
        !std::equal(in_run.begin(), in_run.end(), rest.begin() + static_cast<std::ptrdiff_t>(next)))
      return std::nullopt;
    const ChannelDims moved = wide_dims(to, run->to_first, run->to_last);
    result.insert(result.end(), moved.begin(), moved.end());
    next += in_run.size();
  }
  if (result.empty()) return std::nullopt;
  return result;
}

namespace {

bool is_constant_vector(const Node& node, std::string_view argument) {
  const Value* value = through_observers(node.find_input(argument));
  if (value == nullptr || value->producer() != nullptr) return false;
  const Tensor* tensor = node.graph().find_constant(value);
  return tensor != nullptr && tensor->shape().size() == 1;
}

}  // namespace

std::optional<ChannelDims> dims_through_layout(const Node& node, const ChannelDims& dims,
                                               Direction direction) {
  const Value* input = node.find_input("self");
  const Value* output = node.output_or_null();
  if (input == nullptr || output == nullptr || !input->meta || !output->meta) return std::nullopt;
  if (std::any_of(kReshapes.begin(), kReshapes.end(),
                  [&](std::string_view op) { return node.is(op); })) {
    if (!input->meta->is_static() || !output->meta->is_static()) return std::nullopt;
    const std::vector<int64_t> from = input->meta->shape();
    const std::vector<int64_t> to = output->meta->shape();
    return direction == Direction::kForward ? dims_after_reshape(from, to, dims)
                                            : dims_after_reshape(to, from, dims);
  }
  if (!node.is("aten.permute") && node.target() != "aten.transpose.int") return std::nullopt;
  // for each dimension of the output, that of the input
  const std::vector<int64_t> order =
      permutation_of(node, static_cast<int64_t>(input->meta->sizes.size()));
  ChannelDims result;
  for (int64_t dim : dims) {
    if (direction == Direction::kBackward) {
      if (static_cast<size_t>(dim) >= order.size()) return std::nullopt;
      result.push_back(order[static_cast<size_t>(dim)]);
      continue;
    }
    const auto at = std::find(order.begin(), order.end(), dim);
    if (at == order.end()) return std::nullopt;
    result.push_back(at - order.begin());
  }
  return result;
}

const WeightedOp* find_scaled_form(const Node& node) {
  static constexpr WeightedOp kNorms[] = {
      {"aten.layer_norm", WeightForm::kLinear, "input", "weight", "bias", 0, -1},
      {"aten.rms_norm", WeightForm::kLinear, "input", "weight", "", 0, -1}};
  static constexpr WeightedOp kProducts[] = {
      {"aten.mul.Tensor", WeightForm::kLinear, "self", "other", "", 0, -1},
      {"aten.mul.Tensor", WeightForm::kLinear, "other", "self", "", 0, -1}};
  for (const WeightedOp& norm : kNorms)
    if (node.is(norm.op)) return &norm;
  for (const WeightedOp& product : kProducts)
    if (node.is(product.op) && is_constant_vector(node, product.weight)) return &product;
  const WeightedOp* row = find_weighted_op(node);
  const bool is_scaled =
      row != nullptr && (row->form == WeightForm::kConv || row->form == WeightForm::kLinear ||
                         row->form == WeightForm::kColumns);
  return is_scaled ? row : nullptr;
}

}  // namespace octet
