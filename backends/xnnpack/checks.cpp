// Refuses what XNNPACK's interface cannot express, with the reason, by op kind.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/reference/reference_backend.h"
#include "backends/xnnpack/filter.h"
#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/window.h"
#include "core/base/shape.h"
#include "lowering/program/resize_scale.h"

namespace octet::xnnpack {
namespace {

constexpr size_t kMaxRank = 6;
// products of 8-bit integers that fit an int32 accumulator
constexpr int64_t kMaxSummands = 65536;

constexpr double kMostRatio = 256;
constexpr double kLeastSummand = 0x1p-10;
constexpr double kLeastFactor = 0x1p-16;

bool is_float(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat32; }

Verdict check_activation(const ProgramTensor& tensor) {
  if (tensor.shape.size() > kMaxRank)
    return Verdict::refuse(fmt::format("{} has rank {}, XNNPACK takes at most {}", tensor.name,
                                       tensor.shape.size(), kMaxRank));
  if (tensor.numel() == 0) return Verdict::refuse(fmt::format("{} is empty", tensor.name));
  if (is_float(tensor)) return Verdict::accept();
  const bool is_int16 = tensor.dtype == DType::kInt16;  // custom_bytes.cpp
  if (tensor.dtype != DType::kInt8 && tensor.dtype != DType::kUInt8 && !is_int16) {
    return Verdict::refuse(fmt::format("{} is {}, XNNPACK takes float32, int8, uint8 and int16",
                                       tensor.name, name_of(tensor.dtype)));
  }
  if (!tensor.qparams.has_value())
    return Verdict::refuse(
        fmt::format("{} is {} without scale and zero point", tensor.name, name_of(tensor.dtype)));
  if (!tensor.qparams->is_per_tensor())
    return Verdict::refuse(fmt::format(
        "{} is quantized per channel, XNNPACK takes that for weights only", tensor.name));
  const float scale = tensor.qparams->scale.at(0);
  if (!(scale > 0) || !std::isnormal(scale))
    return Verdict::refuse(
        fmt::format("{} has scale {}, XNNPACK wants a normal positive number", tensor.name, scale));
  const int32_t zero_point = signed_zero_point(tensor);
  if (!is_int16 && (zero_point < -128 || zero_point > 127))
    return Verdict::refuse(fmt::format("{} has a zero point outside of its dtype", tensor.name));
  return Verdict::accept();
}

// Checks that all activations are integer, or all are float.
Verdict check_one_kind(const Program& program, const ProgramOp& op) {
  const bool wants_float = is_float(program.output(op));
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.has_input(i) && is_float(program.input(op, i)) != wants_float) {
      return Verdict::refuse(
          fmt::format("input {} is {} and the output {}, XNNPACK wants both integer or both float",
                      i, name_of(program.input(op, i).dtype), name_of(program.output(op).dtype)));
    }
  }
  return Verdict::accept();
}

double scale_ratio(const Program& program, const ProgramOp& op, size_t input) {
  return double{program.input(op, input).qparams->scale.at(0)} /
         program.output(op).qparams->scale.at(0);
}

// Checks a ratio to the output's scale. Newer releases do not refuse unsupported ratios: they abort
// the process.
Verdict check_ratio(const char* what, double ratio, double least) {
  if (ratio >= least && ratio < kMostRatio) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("{} is {:.4g} times the output's, XNNPACK takes from {:.4g} to {}", what, ratio,
                  least, kMostRatio));
}

Verdict check_spatial(const Program& program, const ProgramOp& op) {
  const size_t rank = program.input(op, 0).shape.size();
  if (has_channels_last(program.input(op, 0).shape)) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("input has rank {}, XNNPACK takes [N, C, L] and [N, C, H, W]", rank));
}

Verdict check_weight(const Program& program, const ProgramOp& op, bool may_be_per_channel) {
  const ProgramTensor& w = program.input(op, 1);
  if (!w.is_constant()) return Verdict::refuse("weight is not a constant");
  const bool is_quantized = !is_float(program.input(op, 0));
  if (is_quantized == is_float(w))
    return Verdict::refuse("weight and input are not both integer or both float");
  if (is_float(program.input(op, 0)) != is_float(program.output(op)))
    return Verdict::refuse("input and output are not both integer or both float");
  if (is_quantized) {
    if (w.dtype != DType::kInt8 && w.dtype != DType::kUInt8)
      return Verdict::refuse(fmt::format("weight is {}, XNNPACK takes int8", name_of(w.dtype)));
    if (!w.qparams.has_value()) return Verdict::refuse("weight has no scale");
    if (!w.qparams->is_per_tensor() && (!may_be_per_channel || w.qparams->axis != 0)) {
      return Verdict::refuse(fmt::format("weight is quantized along axis {}, XNNPACK takes {}",
                                         w.qparams->axis,
                                         may_be_per_channel ? "axis 0" : "one scale"));
    }
    for (size_t i = 0; i < w.qparams->zero_point.size(); ++i) {
      if (signed_zero_point(w, i) != 0)
        return Verdict::refuse("weight has a zero point that is not the middle of its dtype");
    }
  }
  if (w.numel() / w.shape[0] > kMaxSummands)
    return Verdict::refuse("a 32-bit accumulator may overflow");
  if (!op.has_input(2)) return Verdict::accept();
  const ProgramTensor& bias = program.input(op, 2);
  if (!bias.is_constant()) return Verdict::refuse("bias is not a constant");
  const bool is_known = is_float(bias) || (is_quantized && bias.dtype == DType::kInt32);
  if (!is_known) return Verdict::refuse(fmt::format("bias is {}", name_of(bias.dtype)));
  // XNNPACK rounds the bias to accumulator steps.
  if (is_quantized && is_float(bias) && largest_requantization_scale(program, op) > 1) {
    return Verdict::refuse("bias would be rounded by more than half an output step");
  }
  return Verdict::accept();
}

// Refuses a pooling with a window that starts after the input and contains only padding.
Verdict check_inside(const Program& program, const ProgramOp& op, const Window& window) {
  const std::vector<int64_t>& in = program.input(op, 0).shape;
  const std::vector<int64_t>& out = program.output(op).shape;
  const bool fits =
      (out.back() - 1) * window.stride_width < in.back() + window.pad_left &&
      (in.size() == 3 || (out[2] - 1) * window.stride_height < in[2] + window.pad_top);
  return fits ? Verdict::accept() : Verdict::refuse("a window lies outside of the input");
}

template <typename... Checks>
Verdict check_all(const Program& program, const ProgramOp& op, Checks... checks) {
  const std::array<Verdict (*)(const Program&, const ProgramOp&), sizeof...(Checks)> list{
      checks...};
  for (Verdict (*check)(const Program&, const ProgramOp&) : list) {
    Verdict verdict = check(program, op);
    if (!verdict) return verdict;
  }
  return Verdict::accept();
}

}  // namespace

Verdict check_activations(const Program& program, const ProgramOp& op) {
  const size_t most_outputs = op.is("recurrent") ? 2 : 1;
  if (op.inputs.empty() || op.outputs.empty() || op.outputs.size() > most_outputs)
    return Verdict::refuse("it has no input or several outputs");
  bool reads_activation = false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.has_input(i)) continue;
    const ProgramTensor& tensor = program.input(op, i);
    if (tensor.is_constant() && (op.is("conv") || op.is("linear") || op.is("conv_transpose"))) {
      if (tensor.numel() == 0) return Verdict::refuse(fmt::format("{} is empty", tensor.name));
      continue;
    }
    reads_activation |= !tensor.is_constant();
    Verdict verdict = check_activation(tensor);
    if (!verdict) return verdict;
  }
  if (!op.has_input(0)) return Verdict::refuse("its first input is absent");
  if (!reads_activation) return Verdict::refuse("all inputs are constants");
  if (Verdict verdict = check_activation(program.output(op)); !verdict) return verdict;
  return ReferenceSupport().accepts(program, op);
}

Verdict check_conv(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_spatial(program, op);
  if (!verdict) return verdict;
  return check_weight(program, op, true);
}

Verdict check_conv_transpose(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_spatial(program, op);
  if (!verdict) return verdict;
  return check_weight(program, op, false);
}

Verdict check_linear(const Program& program, const ProgramOp& op) {
  return check_weight(program, op, true);
}

Verdict check_binary(const Program& program, const ProgramOp& op) {
  const double alpha = op.get(attr::kAlpha, 1.0);
  if (std::abs(alpha) != 1.0)
    return Verdict::refuse(fmt::format("alpha is {}, XNNPACK takes 1 and -1", alpha));
  Verdict verdict = check_one_kind(program, op);
  if (!verdict || is_float(program.output(op))) return verdict;
  const double a = scale_ratio(program, op, 0), b = scale_ratio(program, op, 1);
  if (op.is("mul"))
    return check_ratio("the product of the inputs' scales",
                       a * b * program.output(op).qparams->scale.at(0), kLeastFactor);
  verdict = check_ratio("input 0's scale", a, kLeastSummand);
  return verdict ? check_ratio("input 1's scale", b, kLeastSummand) : verdict;
}

Verdict check_div(const Program& program, const ProgramOp& op) {
  const bool is_all_float = is_float(program.input(op, 0)) && is_float(program.input(op, 1)) &&
                            is_float(program.output(op));
  return is_all_float ? Verdict::accept() : Verdict::refuse("XNNPACK divides floats only");
}

Verdict check_same_qparams(const Program& program, const ProgramOp& op) {
  const ProgramTensor& in = program.input(op, 0);
  const ProgramTensor& out = program.output(op);
  if (in.dtype != out.dtype) return Verdict::refuse("input and output differ in dtype");
  if (!is_float(in) && (in.qparams->scale != out.qparams->scale ||
                        in.qparams->zero_point != out.qparams->zero_point)) {
    return Verdict::refuse("input and output differ in scale or zero point");
  }
  return Verdict::accept();
}

Verdict check_max_pool(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_all(program, op, check_spatial, check_same_qparams);
  if (!verdict) return verdict;
  const Window window = pooling_window_of(op, program.input(op, 0).shape, program.output(op).shape);
  if (Verdict inside = check_inside(program, op, window); !inside) return inside;
  const bool is_dilated = window.dilation_height > 1 || window.dilation_width > 1;
  if (is_dilated && window.has_padding())
    return Verdict::refuse("XNNPACK pads a dilated max pooling with pixels outside of the window");
  return Verdict::accept();
}

Verdict check_avg_pool(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_all(program, op, check_spatial, check_one_kind);
  if (!verdict) return verdict;
  const Window window = pooling_window_of(op, program.input(op, 0).shape, program.output(op).shape);
  if (Verdict inside = check_inside(program, op, window); !inside) return inside;
  if (!window.has_padding() || op.get(attr::kDivisorOverride) != 0) return Verdict::accept();
  if (!op.get(attr::kCountIncludePad)) {
    if (is_float(program.output(op))) return Verdict::accept();
    return Verdict::refuse("XNNPACK has no integer average that leaves the padding out");
  }
  if (window.pad_bottom > window.pad_top || window.pad_right > window.pad_left)
    return Verdict::refuse("ceil_mode makes windows of different sizes");
  return Verdict::accept();
}

Verdict check_adaptive_avg_pool(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_all(program, op, check_spatial, check_one_kind);
  if (!verdict) return verdict;
  const std::vector<int64_t>& in = program.input(op, 0).shape;
  const std::vector<int64_t>& out = program.output(op).shape;
  for (size_t d = 2; d < in.size(); ++d) {
    if (in[d] % out[d] != 0)
      return Verdict::refuse(
          fmt::format("output size {} does not divide the input's {}", out[d], in[d]));
  }
  return Verdict::accept();
}

Verdict check_mean(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_all(program, op, check_spatial, check_one_kind);
  if (!verdict) return verdict;
  const int64_t rank = static_cast<int64_t>(program.input(op, 0).shape.size());
  std::vector<int64_t> dims = op.get(attr::kDims);
  for (int64_t& dim : dims) dim = wrap_dim(dim, rank);
  std::sort(dims.begin(), dims.end());
  const std::vector<int64_t> spatial =
      rank == 3 ? std::vector<int64_t>{2} : std::vector<int64_t>{2, 3};
  if (dims != spatial)
    return Verdict::refuse(fmt::format(
        "it averages over dimensions [{}], XNNPACK over all spatial ones", fmt::join(dims, ", ")));
  return Verdict::accept();
}

Verdict check_unary(const Program& program, const ProgramOp& op) {
  constexpr std::string_view kInteger[] = {"sigmoid", "elu", "tanh"};
  constexpr std::string_view kFloat[] = {"sigmoid", "elu", "leaky_relu", "hardswish", "hardsigmoid",
                                         "silu",    "neg", "abs",        "sqrt"};
  const std::string fn = op.get(attr::kFn);
  Verdict verdict = check_one_kind(program, op);
  if (!verdict) return verdict;
  if (is_float(program.output(op))) {
    if (std::find(std::begin(kFloat), std::end(kFloat), fn) == std::end(kFloat))
      return Verdict::refuse(fmt::format("this XNNPACK has no float {}", fn));
    return Verdict::accept();
  }
  if (std::find(std::begin(kInteger), std::end(kInteger), fn) == std::end(kInteger))
    return Verdict::refuse(fmt::format("this XNNPACK has no 8-bit {}", fn));
  const ProgramTensor& out = program.output(op);
  struct FixedOutput {
    const char *fn, *text;
    float scale;
    int32_t zero_point;
  };
  constexpr FixedOutput kFixed[] = {{"tanh", "1/128 and the middle", 1.0f / 128, 0},
                                    {"sigmoid", "1/256 and the lowest", 1.0f / 256, -128}};
  for (const FixedOutput& want : kFixed)
    if (fn == want.fn &&
        (out.qparams->scale[0] != want.scale || signed_zero_point(out) != want.zero_point))
      return Verdict::refuse(
          fmt::format("output scale is {} and zero point {}, XNNPACK's {} wants {}",
                      out.qparams->scale[0], out.qparams->zero_point[0], fn, want.text));
  return Verdict::accept();
}

Verdict check_pad(const Program& program, const ProgramOp& op) {
  Verdict verdict = check_same_qparams(program, op);
  if (!verdict) return verdict;
  const std::vector<int64_t> pads = op.get(attr::kPads);
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; }))
    return Verdict::refuse("a pad is negative");
  return Verdict::accept();
}

Verdict check_upsample(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& in = program.input(op, 0).shape;
  const std::vector<int64_t>& out = program.output(op).shape;
  if (op.get(attr::kMode) != "bilinear" || in.size() != 4)
    return Verdict::refuse("XNNPACK resizes 2-D images bilinearly only");
  const bool aligns = op.get(attr::kAlignCorners);
  for (size_t d = 0; d < 2; ++d) {
    const double step = resize_scale(aligns, in[d + 2], out[d + 2]);
    if (std::abs(resize_scale(op, d, in, out) - step) > 1e-6)
      return Verdict::refuse("the scale does not match the sizes");
  }
  return check_same_qparams(program, op);
}

Verdict check_conversion(const Program& program, const ProgramOp& op) {
  const bool reads_float = is_float(program.input(op, 0)),
             writes_float = is_float(program.output(op));
  const bool fits = op.is("quantize")     ? reads_float && !writes_float
                    : op.is("dequantize") ? !reads_float && writes_float
                                          : !reads_float && !writes_float;
  if (!fits) return Verdict::refuse("its dtypes do not fit its kind");
  return op.is("requantize")
             ? check_ratio("the input's scale", scale_ratio(program, op, 0), kLeastFactor)
             : Verdict::accept();
}

}  // namespace octet::xnnpack
