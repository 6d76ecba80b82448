// The table of ops and their forms.
#include "backends/xnnpack/native_ops.h"

#include <fmt/format.h>

#include "backends/kernels/int16_ops.h"
#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/filter.h"
#include "core/base/shape.h"

namespace octet::xnnpack {
namespace {

constexpr Forms kAllChannelsLast{Form::kChannelsLast, Form::kChannelsLast};
constexpr Forms kAllPlain{Form::kPlain, Form::kPlain};
constexpr Forms kAllRows{Form::kRows, Form::kRows};

std::vector<Forms> spatial_forms(const Program&, const ProgramOp&) { return {kAllChannelsLast}; }

std::vector<Forms> linear_forms(const Program&, const ProgramOp&) { return {kAllRows}; }

// Without keepdim the result has rank 2, which [N, 1, 1, C] holds as rows.
std::vector<Forms> mean_forms(const Program& program, const ProgramOp& op) {
  const bool keeps = program.output(op).shape.size() == program.input(op, 0).shape.size();
  return {{Form::kChannelsLast, keeps ? Form::kChannelsLast : Form::kRows}};
}

std::vector<Forms> unary_forms(const Program& program, const ProgramOp& op) {
  if (has_channels_last(program.output(op).shape)) return {kAllChannelsLast, kAllPlain, kAllRows};
  return {kAllPlain, kAllRows};
}

std::vector<Forms> pad_forms(const Program& program, const ProgramOp& op) {
  if (has_channels_last(program.output(op).shape)) return {kAllChannelsLast, kAllPlain};
  return {kAllPlain};
}

// Broadcasting aligns dimensions from the last one, so other forms require operands whose
// dimensions stay aligned.
std::vector<Forms> binary_forms(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& out = program.output(op).shape;
  bool takes_channels_last = has_channels_last(out), takes_rows = !out.empty();
  for (size_t i = 0; i < 2; ++i) {
    const ProgramTensor& operand = program.input(op, i);
    takes_channels_last &= operand.shape.size() == out.size() || operand.is_constant();
    const bool is_trailing_vector =
        !operand.shape.empty() && operand.numel() == operand.shape.back();
    takes_rows &= operand.shape == out || is_trailing_vector || operand.numel() == 1;
  }
  std::vector<Forms> forms;
  if (takes_channels_last) forms.push_back(kAllChannelsLast);
  forms.push_back(kAllPlain);
  if (takes_rows) forms.push_back(kAllRows);
  return forms;
}

// [N, C, pixels] stays channels-last if only the pixels are regrouped.
std::vector<Forms> reshape_forms(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& in = program.input(op, 0).shape;
  const std::vector<int64_t>& out = program.output(op).shape;
  const Forms from_rows{Form::kRows, Form::kPlain};
  if (has_channels_last(in) && has_channels_last(out) && in[0] == out[0] && in[1] == out[1])
    return {kAllChannelsLast, kAllPlain, from_rows};
  return {kAllPlain, from_rows};
}

// Moving channels after or before the pixels moves no bytes; only the form changes.
std::vector<Forms> permute_forms(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t> dims = op.get(attr::kDims);
  const int64_t rank = static_cast<int64_t>(program.input(op, 0).shape.size());
  std::vector<int64_t> from_front = dims;
  for (int64_t& dim : from_front) dim = wrap_dim(dim, rank);
  const std::vector<int64_t> to_back =
      rank == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 2, 3, 1};
  const std::vector<int64_t> to_front =
      rank == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 3, 1, 2};
  std::vector<Forms> forms;
  if (from_front == to_back) forms.push_back({Form::kChannelsLast, Form::kPlain});
  if (from_front == to_front) forms.push_back({Form::kPlain, Form::kChannelsLast});
  return forms;
}

Verdict check_permute(const Program& program, const ProgramOp& op) {
  if (permute_forms(program, op).empty())
    return Verdict::refuse("XNNPACK permutes only to move channels to the last place or back");
  return check_same_qparams(program, op);
}

constexpr NativeOp kOps[] = {
    // kind               refuses                  works in           is written by
    {"conv", check_conv, spatial_forms, emit_conv},
    {"conv_transpose", check_conv_transpose, spatial_forms, emit_conv_transpose},
    {"linear", check_linear, linear_forms, emit_linear},
    {"add", check_binary, binary_forms, emit_binary},
    {"sub", check_binary, binary_forms, emit_binary},
    {"mul", check_binary, binary_forms, emit_binary},
    {"div", check_div, binary_forms, emit_binary},
    {"max_pool", check_max_pool, spatial_forms, emit_max_pool},
    {"avg_pool", check_avg_pool, spatial_forms, emit_avg_pool},
    {"adaptive_avg_pool", check_adaptive_avg_pool, spatial_forms, emit_adaptive_avg_pool},
    {"mean", check_mean, mean_forms, emit_mean},
    {"clamp", check_same_qparams, unary_forms, emit_clamp},
    {"unary", check_unary, unary_forms, emit_unary},
    {"quantize", check_conversion, unary_forms, emit_conversion},
    {"dequantize", check_conversion, unary_forms, emit_conversion},
    {"requantize", check_conversion, unary_forms, emit_conversion},
    {"reshape", check_same_qparams, reshape_forms, emit_reshape},
    {"copy", check_same_qparams, unary_forms, emit_reshape},
    {"permute", check_permute, permute_forms, emit_reshape},
    {"pad", check_pad, pad_forms, emit_pad},
    {"upsample", check_upsample, spatial_forms, emit_upsample},
};

}  // namespace

std::span<const NativeOp> native_ops() { return kOps; }

const NativeOp* find_native_op(std::string_view kind) {
  for (const NativeOp& row : kOps)
    if (row.kind == kind) return &row;
  return nullptr;
}

bool is_depthwise(const Program& program, const ProgramOp& op) {
  return op.get(attr::kGroups) > 1 && program.input(op, 1).shape.at(1) == 1;
}

int32_t signed_zero_point(const ProgramTensor& tensor, size_t i) {
  const int32_t zero_point =
      i < tensor.qparams->zero_point.size() ? tensor.qparams->zero_point[i] : 0;
  return tensor.dtype == DType::kUInt8 ? zero_point - 128 : zero_point;
}

Verdict check_native(const Program& program, const ProgramOp& op) {
  const NativeOp* row = find_native_op(op.kind);
  if (row == nullptr) return Verdict::refuse(fmt::format("XNNPACK has no {}", op.kind));
  if (has_int16(program, op)) return Verdict::refuse("XNNPACK itself has no int16");
  Verdict verdict = check_activations(program, op);
  return verdict ? row->check(program, op) : verdict;
}

namespace {

// Whether an old release lacks a depthwise kernel on bytes for it and processes single channels.
bool is_done_by_channel(const Program& program, const ProgramOp& op) {
  constexpr int64_t kMostTaps = 25;
  const ProgramTensor& w = program.input(op, 1);
  return opened_release() < Release::k2024 && is_depthwise(program, op) &&
         w.numel() / w.shape[0] > kMostTaps;
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

// Whether a custom kernel reads the integers of a weight that XNNPACK would expand to floats.
bool keeps_weight(const Program& program, const ProgramOp& op) {
  return op.is("linear") && check_activations(program, op) && check_weight_linear(program, op);
}

}  // namespace

bool is_native(const Program& program, const ProgramOp& op) {
  return !prefers_custom(program, op) && !keeps_weight(program, op) &&
         find_row_quantize(program, op) == nullptr && static_cast<bool>(check_native(program, op));
}

Verdict check_op(const Program& program, const ProgramOp& op) {
  if (find_native_op(op.kind) == nullptr || has_int16(program, op))
    return check_custom(program, op);
  Verdict verdict = check_native(program, op);
  return verdict || !check_custom(program, op) ? verdict : Verdict::accept();
}

}  // namespace octet::xnnpack
