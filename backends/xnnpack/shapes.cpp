// Refuses inconsistent shapes and attributes before XNNPACK, which trusts them, sees them: an
// .octet file may be damaged.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/filter.h"
#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/window.h"
#include "core/base/shape.h"

namespace octet::xnnpack {
namespace {

using Shape = std::vector<int64_t>;

Verdict expect_shape(const ProgramTensor& out, const Shape& want) {
  if (out.shape == want) return Verdict::accept();
  return Verdict::refuse(fmt::format("{} has shape [{}], want [{}]", out.name,
                                     fmt::join(out.shape, ", "), fmt::join(want, ", ")));
}

// Checks attributes with one entry per spatial dimension: absent, one for all, or that many; none
// below `least`.
Verdict check_per_dimension(const ProgramOp& op, size_t spatial) {
  struct Row {
    attr::Integers key;
    int64_t least;
  };
  constexpr Row kRows[] = {{attr::kKernelSize, 1}, {attr::kStride, 1},
                           {attr::kDilation, 1},   {attr::kPadding, 0},
                           {attr::kPaddingEnd, 0}, {attr::kOutputPadding, 0}};
  for (const Row& row : kRows) {
    const Shape values = op.get(row.key);
    if (values.size() > 1 && values.size() != spatial)
      return Verdict::refuse(
          fmt::format("{} has {} entries, want {}", row.key.name, values.size(), spatial));
    const bool is_in_range = std::all_of(
        values.begin(), values.end(), [&](int64_t v) { return v >= row.least && v <= INT32_MAX; });
    if (!is_in_range)
      return Verdict::refuse(fmt::format("{} is [{}], want at least {}", row.key.name,
                                         fmt::join(values, ", "), row.least));
  }
  return Verdict::accept();
}

struct Axis {
  int64_t kernel, stride, dilation, pad_before, pad_behind, adjust;
};

// Height (for rank 4) and width.
std::vector<Axis> axes_of(const Window& w, size_t rank) {
  std::vector<Axis> axes;
  if (rank == 4)
    axes.push_back({w.kernel_height, w.stride_height, w.dilation_height, w.pad_top, w.pad_bottom,
                    w.adjust_height});
  axes.push_back(
      {w.kernel_width, w.stride_width, w.dilation_width, w.pad_left, w.pad_right, w.adjust_width});
  return axes;
}

Verdict check_bias(const Program& program, const ProgramOp& op, int64_t outputs) {
  if (!op.has_input(2) || program.input(op, 2).numel() == outputs) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("bias has {} elements, want {}", program.input(op, 2).numel(), outputs));
}

Verdict check_convolution_shape(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const ProgramTensor& w = program.input(op, 1);
  // the op's check gives a better reason
  if (!has_channels_last(in) || w.shape.size() != in.size()) return Verdict::accept();
  Verdict verdict = check_per_dimension(op, in.size() - 2);
  if (!verdict) return verdict;
  const int64_t groups = op.get(attr::kGroups);
  const bool is_transposed = op.is("conv_transpose");
  if (w.numel() == 0 || groups < 1 || w.shape[0] % groups != 0)
    return Verdict::refuse(fmt::format("{} groups do not divide the weight", groups));
  const int64_t inputs = is_transposed ? w.shape[0] : w.shape[1] * groups;
  const int64_t outputs = is_transposed ? w.shape[1] * groups : w.shape[0];
  if (in[1] != inputs)
    return Verdict::refuse(
        fmt::format("input has {} channels, the weight wants {}", in[1], inputs));
  const Window window = window_of(op, {w.shape.begin() + 2, w.shape.end()});
  Shape want{in[0], outputs};
  for (const Axis& axis : axes_of(window, in.size())) {
    const int64_t size = in[want.size()], reach = axis.dilation * (axis.kernel - 1) + 1;
    want.push_back(is_transposed
                       ? (size - 1) * axis.stride + reach + axis.adjust - axis.pad_before -
                             axis.pad_behind
                       : (size + axis.pad_before + axis.pad_behind - reach) / axis.stride + 1);
  }
  verdict = check_bias(program, op, outputs);
  return verdict ? expect_shape(program.output(op), want) : verdict;
}

Verdict check_linear_shape(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = program.input(op, 0);
  const ProgramTensor& w = program.input(op, 1);
  if (w.shape.size() != 2) return Verdict::accept();
  if (x.shape.empty() || x.shape.back() != w.shape[1])
    return Verdict::refuse(
        fmt::format("input's last dimension is not the weight's {}", w.shape[1]));
  Shape want = x.shape;
  want.back() = w.shape[0];
  Verdict verdict = check_bias(program, op, w.shape[0]);
  return verdict ? expect_shape(program.output(op), want) : verdict;
}

Verdict check_pool_shape(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const ProgramTensor& out = program.output(op);
  if (!has_channels_last(in)) return Verdict::accept();
  Verdict verdict = check_per_dimension(op, in.size() - 2);
  if (!verdict) return verdict;
  if (op.get(attr::kKernelSize).empty()) return Verdict::refuse("it has no kernel_size");
  if (out.shape.size() != in.size())
    return Verdict::refuse("output has another rank than the input");
  Shape want{in[0], in[1]};
  for (const Axis& axis : axes_of(pooling_window_of(op, in, out.shape), in.size())) {
    const int64_t size = in[want.size()] + axis.pad_before + axis.pad_behind,
                  reach = axis.dilation * (axis.kernel - 1) + 1;
    want.push_back(size < reach ? 0 : (size - reach) / axis.stride + 1);
    // A window that starts after the input would contain only padding.
    if ((want.back() - 1) * axis.stride >= in[want.size() - 1] + axis.pad_before)
      return Verdict::refuse("a window lies outside of the input");
  }
  return expect_shape(out, want);
}

Verdict check_average_shape(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const ProgramTensor& out = program.output(op);
  if (!has_channels_last(in)) return Verdict::accept();
  if (op.is("mean") && out.shape.size() == 2) return expect_shape(out, {in[0], in[1]});
  Shape want = in;
  std::fill(want.begin() + 2, want.end(), 1);
  if (op.is("mean")) return expect_shape(out, want);
  const bool fits = out.shape.size() == in.size() && out.shape[0] == in[0] && out.shape[1] == in[1];
  return fits ? Verdict::accept() : expect_shape(out, want);
}

Verdict check_binary_shape(const Program& program, const ProgramOp& op) {
  if (!op.has_input(1)) return Verdict::refuse("its second input is absent");
  const size_t rank =
      std::max(program.input(op, 0).shape.size(), program.input(op, 1).shape.size());
  const Shape a = padded_shape(program.input(op, 0).shape, rank),
              b = padded_shape(program.input(op, 1).shape, rank);
  Shape want(rank);
  for (size_t d = 0; d < rank; ++d) {
    if (a[d] != b[d] && a[d] != 1 && b[d] != 1)
      return Verdict::refuse("its inputs do not broadcast");
    want[d] = std::max(a[d], b[d]);
  }
  return expect_shape(program.output(op), want);
}

Verdict check_same_shape(const Program& program, const ProgramOp& op) {
  return expect_shape(program.output(op), program.input(op, 0).shape);
}

Verdict check_reshape_shape(const Program& program, const ProgramOp& op) {
  if (program.input(op, 0).numel() == program.output(op).numel()) return Verdict::accept();
  return Verdict::refuse("input and output differ in the number of elements");
}

Verdict check_permute_shape(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const Shape dims = op.get(attr::kDims);
  if (dims.size() != in.size()) return Verdict::refuse("dims are not one per dimension");
  Shape want;
  for (int64_t dim : dims) {
    const std::optional<size_t> found = find_dim(dim, in.size());
    if (!found) return Verdict::refuse(fmt::format("dimension {} does not exist", dim));
    want.push_back(in[*found]);
  }
  return expect_shape(program.output(op), want);
}

Verdict check_pad_shape(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t> pads = op.get(attr::kPads);
  Shape want = program.input(op, 0).shape;
  if (pads.size() != 2 * want.size()) return Verdict::refuse("pads are not two per dimension");
  for (size_t d = 0; d < want.size(); ++d) want[d] += pads[2 * d] + pads[2 * d + 1];
  return expect_shape(program.output(op), want);
}

Verdict check_upsample_shape(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const Shape& out = program.output(op).shape;
  const bool fits = in.size() == out.size() && in.size() >= 3 && in[0] == out[0] && in[1] == out[1];
  return fits ? Verdict::accept() : Verdict::refuse("input and output differ in batch or channels");
}

struct ShapeRow {
  OpKind kind;
  Verdict (*check)(const Program&, const ProgramOp&);
};

constexpr ShapeRow kShapes[] = {
    {"conv", check_convolution_shape},  {"conv_transpose", check_convolution_shape},
    {"linear", check_linear_shape},     {"add", check_binary_shape},
    {"sub", check_binary_shape},        {"mul", check_binary_shape},
    {"div", check_binary_shape},        {"max_pool", check_pool_shape},
    {"avg_pool", check_pool_shape},     {"adaptive_avg_pool", check_average_shape},
    {"mean", check_average_shape},      {"reshape", check_reshape_shape},
    {"permute", check_permute_shape},   {"pad", check_pad_shape},
    {"upsample", check_upsample_shape},
};

}  // namespace

Verdict check_shapes(const Program& program, const ProgramOp& op) {
  const bool needs_weight = op.is("conv") || op.is("conv_transpose") || op.is("linear");
  if (needs_weight && !op.has_input(1)) return Verdict::refuse("its weight is absent");
  for (const ShapeRow& row : kShapes)
    if (row.kind == op.kind) return row.check(program, op);
  return check_same_shape(program, op);  // clamp, unary, softmax, copy and the conversions
}

Verdict check_native(const Program& program, const ProgramOp& op) {
  const NativeOp* row = find_native_op(op.kind);
  if (row == nullptr) return Verdict::refuse(fmt::format("XNNPACK has no {}", op.kind));
  for (Verdict (*check)(const Program&, const ProgramOp&) :
       {check_activations, check_shapes, row->check}) {
    Verdict verdict = check(program, op);
    if (!verdict) return verdict;
  }
  return Verdict::accept();
}

namespace {

// Whether the release of 2022 lacks a depthwise kernel on bytes for it and processes single
// channels.
bool is_done_by_channel(const Program& program, const ProgramOp& op) {
#ifdef OCTET_XNNPACK_HAS_ROW_PRODUCT
  return false;
#else
  constexpr int64_t kMostTaps = 25;
  const ProgramTensor& w = program.input(op, 1);
  return is_depthwise(program, op) && w.numel() / w.shape[0] > kMostTaps;
#endif
}

// Whether the custom kernel, which uses instructions that XNNPACK lacks, saves more in products
// than packing costs per pixel. XNNPACK handles groups differently.
bool gains_by_custom_conv(const Program& program, const ProgramOp& op) {
  constexpr int64_t kLeastProducts = 1 << 10;  // per pixel
  constexpr int64_t kChannels = 8;             // XNNPACK pads channels to a multiple of this
  const ProgramTensor& w = program.input(op, 1);
  return op.get(attr::kGroups) == 1 && (w.numel() > kLeastProducts || w.shape[1] < kChannels);
}

// Whether a custom kernel runs a linear or convolution on bytes that XNNPACK supports: where it is
// faster, or where XNNPACK fails only when it creates the op.
bool prefers_custom(const Program& program, const ProgramOp& op) {
  const bool is_conv = op.is("conv");
  if ((!op.is("linear") && !is_conv) || !check_activations(program, op) ||
      !(is_conv ? check_byte_conv : check_byte_linear)(program, op))
    return false;
  const bool writes_bytes = program.output(op).qparams.has_value();
  return (prefers_byte_linear() && (!is_conv || gains_by_custom_conv(program, op))) ||
         (is_conv && is_done_by_channel(program, op)) ||
         (writes_bytes && !takes_requantization_scales(program, op));
}

}  // namespace

bool is_native(const Program& program, const ProgramOp& op) {
  return !prefers_custom(program, op) && find_row_quantize(program, op) == nullptr &&
         static_cast<bool>(check_native(program, op));
}

Verdict check_op(const Program& program, const ProgramOp& op) {
  if (find_native_op(op.kind) == nullptr) return check_custom(program, op);
  Verdict verdict = check_native(program, op);
  return verdict || !check_custom(program, op) ? verdict : Verdict::accept();
}

}  // namespace octet::xnnpack
