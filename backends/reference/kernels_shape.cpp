// Moves elements: reshape, permute, cat, slice, expand, pad, rows of embedding tables. If input and
// output store elements alike (dtype and qparams), moves bytes; otherwise converts through reals.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "core/base/error.h"

namespace octet::reference {
namespace {

void reshape(const KernelCall& call) {
  if (is_stored_alike(call.input(0), call.output())) {
    if (call.outputs[0].numel() > 0)
      std::memcpy(call.outputs[0].raw(), call.inputs[0].raw(), call.outputs[0].nbytes());
    return;
  }
  int64_t next = 0;
  move_elements(call, [&next] { return next++; });
}

// Reads the input with strides in the order of the output's dimensions.
void gather_strided(const KernelCall& call, Sizes strides, int64_t offset) {
  StridedWalk walk(call.output_shape(), std::move(strides));
  move_elements(call, [&walk, offset] {
    const int64_t at = offset + walk.offset();
    walk.next();
    return at;
  });
}

void permute(const KernelCall& call) {
  const Sizes own = strides_of(call.input_shape(0));
  Sizes strides;
  for (int64_t dim : call.op.get(attr::kDims)) strides.push_back(own[*find_dim(dim, own.size())]);
  gather_strided(call, std::move(strides), 0);
}

void slice(const KernelCall& call) {
  Sizes strides = strides_of(call.input_shape(0));
  const size_t dim = *find_dim(call.op.get(attr::kDim), strides.size());
  const int64_t offset = call.op.get(attr::kStart) * strides[dim];
  // a longer step would never be taken
  strides[dim] *=
      std::min(call.op.get(attr::kStep), std::max<int64_t>(call.input_shape(0)[dim], 1));
  gather_strided(call, std::move(strides), offset);
}

void expand(const KernelCall& call) {
  gather_strided(call, broadcast_strides(call.input_shape(0), call.output_shape()), 0);
}

void pad(const KernelCall& call) {
  const std::vector<int64_t>& pads = call.op.get(attr::kPads);
  const std::vector<int64_t>& in = call.input_shape(0);
  const std::vector<int64_t>& out = call.output_shape();
  const Sizes strides = strides_of(in);
  Sizes index(out.size(), 0);
  move_elements(
      call,
      [&] {
        int64_t at = 0;
        for (size_t d = 0; d < out.size() && at >= 0; ++d) {
          const int64_t position = index[d] - pads[2 * d];
          at = position < 0 || position >= in[d] ? -1 : at + position * strides[d];
        }
        for (size_t d = out.size(); d-- > 0;) {
          if (++index[d] < out[d]) break;
          index[d] = 0;
        }
        return at;
      },
      call.op.get(attr::kValue));
}

void cat(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.output_shape();
  const size_t dim = *find_dim(call.op.get(attr::kDim), shape.size());
  const DimSplit whole = split_at(shape, dim);
  bool is_alike = true;
  for (size_t i = 0; i < call.input_count(); ++i)
    is_alike = is_alike && is_stored_alike(call.input(i), call.output());
  const size_t element = size_of(call.output().dtype);
  Buffer<double> y(is_alike ? 0 : static_cast<size_t>(call.outputs[0].numel()));
  int64_t start = 0;
  for (size_t i = 0; i < call.input_count(); ++i) {
    const int64_t run = call.input_shape(i)[dim] * whole.inner;
    for (int64_t outer = 0; outer < whole.outer; ++outer) {
      const int64_t to = (outer * whole.size + start) * whole.inner;
      if (is_alike) {
        std::memcpy(call.outputs[0].raw() + static_cast<size_t>(to) * element,
                    call.inputs[i].raw() + static_cast<size_t>(outer * run) * element,
                    static_cast<size_t>(run) * element);
      }
    }
    if (!is_alike) {
      const Reals<double> x = doubles(call, i);
      for (int64_t outer = 0; outer < whole.outer; ++outer)
        std::copy_n(x.data() + outer * run, run,
                    y.data() + (outer * whole.size + start) * whole.inner);
    }
    start += call.input_shape(i)[dim];
  }
  if (!is_alike) store<double>(call, y);
}

void embedding(const KernelCall& call) {
  const ProgramTensor& table = call.input(0);
  const int64_t rows = call.input_shape(0)[0];
  const int64_t width = call.input_shape(0)[1];
  const Tensor& indices = call.inputs[1];
  Sizes chosen;
  for (int64_t i = 0, n = indices.numel(); i < n; ++i) {
    const int64_t row =
        indices.dtype() == DType::kInt64 ? indices.data<int64_t>()[i] : indices.data<int32_t>()[i];
    if (row < 0 || row >= rows)
      throw Error(
          "run", call.op.name,
          fmt::format("index {} is outside of the table's {} rows; check the input", row, rows));
    chosen.push_back(row);
  }
  if (!table.stored && is_stored_alike(table, call.output())) {
    const size_t bytes = static_cast<size_t>(width) * size_of(table.dtype);
    for (size_t i = 0; i < chosen.size(); ++i)
      std::memcpy(call.outputs[0].raw() + i * bytes,
                  call.inputs[0].raw() + static_cast<size_t>(chosen[i]) * bytes, bytes);
    return;
  }
  // Convert only the selected rows.
  Buffer<float> y(chosen.size() * static_cast<size_t>(width));
  for (size_t i = 0; i < chosen.size(); ++i)
    read_row(call.inputs[0], table, chosen[i],
             std::span(y).subspan(i * static_cast<size_t>(width), static_cast<size_t>(width)));
  store<float>(call, y);
}

// ---- checks

const std::vector<int64_t>& output_shape(const Program& program, const ProgramOp& op) {
  return program.tensor(op.outputs[0]).shape;
}

Verdict check_reshape(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = *find_input(program, op, 0);
  if (x.numel() != product(output_shape(program, op)))
    return Verdict::refuse(fmt::format("{} elements do not fit shape {}", x.numel(),
                                       shape_text(output_shape(program, op))));
  return Verdict::accept();
}

Verdict check_permute(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  std::vector<bool> is_seen(x.size(), false);
  std::vector<int64_t> want;
  for (int64_t dim : op.get(attr::kDims)) {
    const std::optional<size_t> found = find_dim(dim, x.size());
    if (!found || is_seen[*found])
      return Verdict::refuse(fmt::format("dims {} do not fit input {}",
                                         shape_text(op.get(attr::kDims)), shape_text(x)));
    is_seen[*found] = true;
    want.push_back(x[*found]);
  }
  return check_output_shape(program, op, 0, want);
}

Verdict check_slice(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::optional<size_t> dim = find_dim(op.get(attr::kDim), x.size());
  const int64_t start = op.get(attr::kStart), step = op.get(attr::kStep);
  const std::vector<int64_t>& y = output_shape(program, op);
  if (!dim || step < 1 || start < 0 || y.size() != x.size())
    return Verdict::refuse("slice with dimension, start or step out of range");
  if (y[*dim] > 0 && (start >= x[*dim] || y[*dim] - 1 > (x[*dim] - 1 - start) / step))
    return Verdict::refuse(
        fmt::format("slice {} reaches outside of {}", shape_text(y), shape_text(x)));
  std::vector<int64_t> want = x;
  want[*dim] = y[*dim];
  return check_output_shape(program, op, 0, want);
}

Verdict check_expand(const Program& program, const ProgramOp& op) {
  if (!is_broadcastable(find_input(program, op, 0)->shape, output_shape(program, op)))
    return Verdict::refuse("input does not broadcast to the output");
  return Verdict::accept();
}

Verdict check_pad(const Program& program, const ProgramOp& op) {
  std::vector<int64_t> want = find_input(program, op, 0)->shape;
  const std::vector<int64_t> pads = op.get(attr::kPads);
  if (pads.size() != 2 * want.size())
    return Verdict::refuse(fmt::format("got {} pads for {} dimensions", pads.size(), want.size()));
  for (int64_t count : pads)
    if (count < -kLargestAttribute || count > kLargestAttribute)
      return Verdict::refuse(fmt::format("pads has entry {}", count));
  for (size_t d = 0; d < want.size(); ++d) want[d] += pads[2 * d] + pads[2 * d + 1];
  return check_output_shape(program, op, 0, want);
}

Verdict check_cat(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& y = output_shape(program, op);
  const std::optional<size_t> dim = find_dim(op.get(attr::kDim), y.size());
  if (!dim || op.inputs.empty())
    return Verdict::refuse("cat of nothing or along a dimension out of range");
  std::vector<int64_t> want = y;
  want[*dim] = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    std::vector<int64_t> x = find_input(program, op, i)->shape;
    if (x.size() != y.size())
      return Verdict::refuse(fmt::format("input {} does not fit {}", shape_text(x), shape_text(y)));
    want[*dim] += x[*dim];
    x[*dim] = y[*dim];
    if (x != y) return Verdict::refuse(fmt::format("input {} does not fit {}", i, shape_text(y)));
  }
  return check_output_shape(program, op, 0, want);
}

Verdict check_embedding(const Program& program, const ProgramOp& op) {
  const ProgramTensor& weight = *find_input(program, op, 0);
  const ProgramTensor& indices = *find_input(program, op, 1);
  if (weight.shape.size() != 2 ||
      (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32))
    return Verdict::refuse("embedding wants a table [V, D] and integer indices");
  std::vector<int64_t> want = indices.shape;
  want.push_back(weight.shape[1]);
  return check_output_shape(program, op, 0, want);
}

// ---- embedding_bag

// The start of each bag in the list of indices, and the end of the last bag.
Sizes bag_bounds(const KernelCall& call, int64_t count) {
  const int64_t bags = call.output_shape()[0];
  Sizes bounds;
  if (!call.has_input(2)) {
    const int64_t width = call.input_shape(1)[1];
    for (int64_t bag = 0; bag <= bags; ++bag) bounds.push_back(bag * width);
    return bounds;
  }
  bounds = elements<int64_t>(call, 2);
  if (!call.op.get(attr::kIncludeLastOffset)) bounds.push_back(count);
  for (size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i] < (i == 0 ? 0 : bounds[i - 1]) || bounds[i] > count || (i == 0 && bounds[i] > 0))
      throw Error(
          "run", call.op.name,
          fmt::format("offset {} is {}, want increasing offsets from 0 to {}; check the input", i,
                      bounds[i], count));
  return bounds;
}

void embedding_bag(const KernelCall& call) {
  const std::string_view mode = call.op.get(attr::kMode);
  const size_t width = static_cast<size_t>(call.input_shape(0)[1]);
  const Sizes rows = read_indices(call, 1, call.input_shape(0)[0], IndexRange::kPositive);
  const Sizes bounds = bag_bounds(call, static_cast<int64_t>(rows.size()));
  const int64_t padding = call.op.get(attr::kPaddingIdx);
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
  if (Verdict dtype = check_index_dtype(program, op, 1); !dtype) return dtype;
  const std::vector<int64_t>& weight = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& indices = find_input(program, op, 1)->shape;
  const ProgramTensor* offsets = find_input(program, op, 2);
  const ProgramTensor* factors = find_input(program, op, 3);
  if (weight.size() != 2 || indices.size() != (offsets != nullptr ? 1u : 2u))
    return Verdict::refuse(
        fmt::format("embedding_bag wants a table [V, D] and indices of rank {}, got {} and {}",
                    offsets != nullptr ? 1 : 2, shape_text(weight), shape_text(indices)));
  if (factors != nullptr && (op.get(attr::kMode) != "sum" || factors->shape != indices))
    return Verdict::refuse("per-sample weights need mode sum and one weight per index");
  int64_t bags = indices[0];
  if (offsets != nullptr) {
    if (Verdict dtype = check_index_dtype(program, op, 2); !dtype) return dtype;
    const bool has_last = op.get(attr::kIncludeLastOffset);
    if (offsets->shape.size() != 1 || (has_last && offsets->shape[0] < 1))
      return Verdict::refuse(fmt::format("offsets {}", shape_text(offsets->shape)));
    bags = offsets->shape[0] - (has_last ? 1 : 0);
  }
  return check_output_shape(program, op, 0, {bags, weight[1]});
}

// ---- the rows

constexpr KernelRow kShapeKernels[] = {
    {"reshape", reshape, check_reshape},
    {"permute", permute, check_permute},
    {"slice", slice, check_slice},
    {"expand", expand, check_expand},
    {"pad", pad, check_pad},
    {"cat", cat, check_cat},
    {"embedding", embedding, check_embedding},
    {"embedding_bag", embedding_bag, check_embedding_bag},
};

}  // namespace

std::span<const KernelRow> shape_kernels() { return kShapeKernels; }

}  // namespace octet::reference
