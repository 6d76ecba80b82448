// embedding_bag: sums, means or greatest elements of the rows of a table that a bag lists.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "core/base/error.h"

namespace octet::reference {
namespace {

// Where each bag begins in the list of indices, and where the last one ends.
Sizes bag_bounds(const KernelCall& call, int64_t count) {
  const int64_t bags = call.output_shape()[0];
  Sizes bounds;
  if (!call.has_input(2)) {
    const int64_t width = call.input_shape(1)[1];
    for (int64_t bag = 0; bag <= bags; ++bag) bounds.push_back(bag * width);
    return bounds;
  }
  bounds = elements<int64_t>(call, 2);
  if (!call.op.flag("include_last_offset")) bounds.push_back(count);
  for (size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i] < (i == 0 ? 0 : bounds[i - 1]) || bounds[i] > count || (i == 0 && bounds[i] > 0))
      throw Error("run", call.op.name,
                  fmt::format("offset {} is {}, want rising ones from 0 to {}; check the input", i,
                              bounds[i], count));
  return bounds;
}

void embedding_bag(const KernelCall& call) {
  const std::string_view mode = call.text("mode", "sum");
  const size_t width = static_cast<size_t>(call.input_shape(0)[1]);
  const Sizes rows = read_indices(call, 1, call.input_shape(0)[0], IndexRange::kPositive);
  const Sizes bounds = bag_bounds(call, static_cast<int64_t>(rows.size()));
  const int64_t padding = call.op.integer("padding_idx", -1);
  Buffer<double> factors(call.has_input(3) ? 0 : rows.size(), 1.0);
  if (call.has_input(3)) factors = elements<double>(call, 3);
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()), 0.0);
  Buffer<float> single(width);
  Buffer<double> row(width);
  const bool is_double = call.input(0).dtype == DType::kFloat64;
  for (size_t bag = 0; bag + 1 < bounds.size(); ++bag) {
    const std::span<double> sums = std::span(y).subspan(bag * width, width);
    int64_t count = 0;
    for (size_t i = static_cast<size_t>(bounds[bag]); i < static_cast<size_t>(bounds[bag + 1]);
         ++i) {
      if (rows[i] == padding) continue;
      if (is_double) {
        std::copy_n(call.inputs[0].data<double>() + rows[i] * call.input_shape(0)[1], width,
                    row.begin());
      } else {
        read_row(call.inputs[0], call.input(0), rows[i], single);
        std::copy(single.begin(), single.end(), row.begin());
      }
      for (size_t d = 0; d < width; ++d) {
        if (mode != "max")
          sums[d] += factors[i] * row[d];
        else if (count == 0 || row[d] > sums[d])
          sums[d] = row[d];
      }
      ++count;
    }
    if (mode == "mean" && count > 0)
      for (double& sum : sums) sum /= static_cast<double>(count);
  }
  store<double>(call, y);
}

Verdict check_embedding_bag(const Program& program, const ProgramOp& op) {
  if (Verdict counts = check_counts(op, 2, 4); !counts) return counts;
  if (Verdict dtype = check_index_dtype(program, op, 1); !dtype) return dtype;
  const std::vector<int64_t>& weight = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& indices = find_input(program, op, 1)->shape;
  const ProgramTensor* offsets = find_input(program, op, 2);
  const ProgramTensor* factors = find_input(program, op, 3);
  if (weight.size() != 2 || indices.size() != (offsets != nullptr ? 1u : 2u))
    return Verdict::refuse(
        fmt::format("embedding_bag wants a table [V, D] and indices of rank {}, got {} and {}",
                    offsets != nullptr ? 1 : 2, shape_text(weight), shape_text(indices)));
  const std::string mode = op.text("mode", "sum");
  if (mode != "sum" && mode != "mean" && mode != "max")
    return Verdict::refuse(fmt::format("unknown mode \"{}\"", mode));
  if (factors != nullptr && (mode != "sum" || factors->shape != indices))
    return Verdict::refuse("per-sample weights are those of sums, one for each index");
  op.integer("padding_idx", -1);
  int64_t bags = indices[0];
  if (offsets != nullptr) {
    if (Verdict dtype = check_index_dtype(program, op, 2); !dtype) return dtype;
    const bool has_last = op.flag("include_last_offset");
    if (offsets->shape.size() != 1 || (has_last && offsets->shape[0] < 1))
      return Verdict::refuse(fmt::format("offsets {}", shape_text(offsets->shape)));
    bags = offsets->shape[0] - (has_last ? 1 : 0);
  }
  return check_output_shape(program, op, 0, {bags, weight[1]});
}

constexpr KernelRow kBagKernels[] = {
    {"embedding_bag", embedding_bag, check_embedding_bag},
};

}  // namespace

std::span<const KernelRow> bag_kernels() { return kBagKernels; }

}  // namespace octet::reference
