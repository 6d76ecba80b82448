// Writes elementwise ops, conversions and changes of shape as XNNPACK nodes.
#include <limits>

#include "backends/xnnpack/stage.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

using NodeFunction = xnn_status (*)(xnn_subgraph_t, uint32_t, uint32_t, uint32_t);

struct UnaryRow {
  std::string_view fn;
  NodeFunction define;
  const char* call;
};

// Functions without parameters. leaky_relu and elu have one; silu and hardsigmoid are composed.
const UnaryRow kUnaries[] = {
    {"sigmoid", xnn_define_sigmoid, "xnn_define_sigmoid"},
    {"hardswish", xnn_define_hardswish, "xnn_define_hardswish"},
    {"neg", xnn_define_negate, "xnn_define_negate"},
    {"abs", xnn_define_abs, "xnn_define_abs"},
    {"sqrt", xnn_define_square_root, "xnn_define_square_root"},
    {"tanh", xnn_define_tanh, "xnn_define_tanh"},
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void emit_silu(StageBuilder& builder, const ProgramTensor& like, const std::vector<size_t>& dims,
               uint32_t x, uint32_t y) {
  const uint32_t gate = builder.scratch(like, dims);
  require_success(xnn_define_sigmoid(builder.subgraph(), x, gate, 0), "xnn_define_sigmoid");
  require_success(xnn_define_multiply2(builder.subgraph(), -kInfinity, kInfinity, x, gate, y, 0),
                  "xnn_define_multiply2");
}

void emit_hardsigmoid(StageBuilder& builder, const ProgramTensor& like,
                      const std::vector<size_t>& dims, uint32_t x, uint32_t y) {
  const uint32_t shifted = builder.scratch(like, dims);
  require_success(
      xnn_define_add2(builder.subgraph(), 0.0f, 6.0f, x, builder.scalar_f32(3.0f), shifted, 0),
      "xnn_define_add2");
  require_success(xnn_define_multiply2(builder.subgraph(), -kInfinity, kInfinity, shifted,
                                       builder.scalar_f32(1.0f / 6.0f), y, 0),
                  "xnn_define_multiply2");
}

// For releases without tanh: tanh(x) = 2 sigmoid(2x) - 1. Every step except the sigmoid is exact on
// integers: tanh with output scale 1/128 and zero point 0 has the same integers as sigmoid with
// 1/256 and -128.
void emit_integer_tanh(StageBuilder& builder, const ProgramTensor& in,
                       const std::vector<size_t>& dims, uint32_t x, uint32_t y) {
  const auto scratch = [&](float scale, int32_t zero_point) {
    ProgramTensor like;
    like.dtype = DType::kInt8;
    like.qparams = TensorQParams{{scale}, {zero_point}, -1};
    return builder.scratch(like, dims);
  };
  const uint32_t twice = scratch(2 * in.qparams->scale[0], signed_zero_point(in));
  const uint32_t gate = scratch(1.0f / 256, -128);
  const uint32_t twice_gate = scratch(1.0f / 128, -128);
  const xnn_subgraph_t subgraph = builder.subgraph();
  require_success(xnn_define_multiply2(subgraph, -kInfinity, kInfinity, x,
                                       builder.scalar_s8(1, 2.0f), twice, 0),
                  "xnn_define_multiply2");
  require_success(xnn_define_sigmoid(subgraph, twice, gate, 0), "xnn_define_sigmoid");
  require_success(xnn_define_multiply2(subgraph, -kInfinity, kInfinity, gate,
                                       builder.scalar_s8(1, 2.0f), twice_gate, 0),
                  "xnn_define_multiply2");
  require_success(xnn_define_add2(subgraph, -kInfinity, kInfinity, twice_gate,
                                  builder.scalar_s8(-128, 1.0f / 128), y, 0),
                  "xnn_define_add2");
}

void emit_same_shape(StageBuilder& builder, const std::vector<size_t>& dims, uint32_t x,
                     uint32_t y) {
  require_success(xnn_define_static_reshape(builder.subgraph(), dims.size(), dims.data(), x, y, 0),
                  "xnn_define_static_reshape");
}

}  // namespace

void emit_binary(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const size_t rank = builder.program().output(op).shape.size();
  const OutputRange range = post_range_of(op);
  const uint32_t a = builder.input(op.inputs[0], forms.in, rank);
  const uint32_t b = builder.input(op.inputs[1], forms.in, rank);
  const uint32_t y = builder.output(op.outputs[0], forms.out);
  const bool subtracts = (op.is("sub")) != (op.get(attr::kAlpha, 1.0) == -1.0);
  if (op.is("mul")) {
    require_success(xnn_define_multiply2(builder.subgraph(), range.min, range.max, a, b, y, 0),
                    "xnn_define_multiply2");
  } else if (op.is("div")) {
    require_success(xnn_define_divide(builder.subgraph(), range.min, range.max, a, b, y, 0),
                    "xnn_define_divide");
  } else if (subtracts) {
    require_success(xnn_define_subtract(builder.subgraph(), range.min, range.max, a, b, y, 0),
                    "xnn_define_subtract");
  } else {
    require_success(xnn_define_add2(builder.subgraph(), range.min, range.max, a, b, y, 0),
                    "xnn_define_add2");
  }
}

void emit_clamp(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const float min = static_cast<float>(op.find(attr::kMin).value_or(-kInfinity));
  const float max = static_cast<float>(op.find(attr::kMax).value_or(kInfinity));
  require_success(
      xnn_define_clamp(builder.subgraph(), min, max, builder.input(op.inputs[0], forms.in),
                       builder.output(op.outputs[0], forms.out), 0),
      "xnn_define_clamp");
}

void emit_unary(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& in = builder.program().input(op, 0);
  const std::string fn = op.get(attr::kFn);
  const uint32_t x = builder.input(op.inputs[0], forms.in);
  const uint32_t y = builder.output(op.outputs[0], forms.out);
  if (fn == "silu") return emit_silu(builder, in, dims_of(in.shape, forms.in), x, y);
  if (fn == "hardsigmoid") return emit_hardsigmoid(builder, in, dims_of(in.shape, forms.in), x, y);
  if (fn == "tanh" && opened_release() < Release::k2023)
    return emit_integer_tanh(builder, in, dims_of(in.shape, forms.in), x, y);
  if (fn == "elu")
    return require_success(
        xnn_define_elu(builder.subgraph(), static_cast<float>(op.get(attr::kAlpha, 1.0)), x, y, 0),
        "xnn_define_elu");
  if (fn == "leaky_relu") {
    return require_success(
        xnn_define_leaky_relu(builder.subgraph(), static_cast<float>(op.get(attr::kAlpha, 0.01)), x,
                              y, 0),
        "xnn_define_leaky_relu");
  }
  for (const UnaryRow& row : kUnaries)
    if (row.fn == fn) return require_success(row.define(builder.subgraph(), x, y, 0), row.call);
  throw Refusal("no XNNPACK function " + fn);
}

// Reshapes, copies, and permutations that leave the bytes in place.
void emit_reshape(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& out = builder.program().output(op);
  emit_same_shape(builder, dims_of(out.shape, forms.out), builder.input(op.inputs[0], forms.in),
                  builder.output(op.outputs[0], forms.out));
}

void emit_pad(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& x = builder.program().input(op, 0);
  const std::vector<int64_t> pads = op.get(attr::kPads);
  std::vector<int64_t> before, after;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    before.push_back(pads[2 * d]);
    after.push_back(pads[2 * d + 1]);
  }
  std::vector<size_t> pre = dims_of(before, forms.in), post = dims_of(after, forms.in);
  // skip the height that the form adds
  if (forms.in == Form::kChannelsLast && x.shape.size() == 3) pre[1] = post[1] = 0;
  require_success(xnn_define_static_constant_pad(builder.subgraph(), pre.data(), post.data(),
                                                 static_cast<float>(op.get(attr::kValue)),
                                                 builder.input(op.inputs[0], forms.in),
                                                 builder.output(op.outputs[0], forms.out), 0),
                  "xnn_define_static_constant_pad");
}

void emit_upsample(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const std::vector<int64_t>& out = builder.program().output(op).shape;
  require_success(
      xnn_define_static_resize_bilinear_2d(
          builder.subgraph(), static_cast<size_t>(out[2]), static_cast<size_t>(out[3]),
          builder.input(op.inputs[0], forms.in), builder.output(op.outputs[0], forms.out),
          op.get(attr::kAlignCorners) ? XNN_FLAG_ALIGN_CORNERS : 0),
      "xnn_define_static_resize_bilinear_2d");
}

// quantize and dequantize become XNNPACK's convert; requantize becomes a multiplication by one, or
// a copy if the scales are equal. A range narrower than the dtype becomes the multiplication's
// clamp.
void emit_conversion(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& in = builder.program().input(op, 0);
  const ProgramTensor& out = builder.program().output(op);
  const OutputRange range = quantized_range_of(builder.program(), op);
  const bool is_whole = range.min == -kInfinity && range.max == kInfinity;
  const std::vector<size_t> dims = dims_of(out.shape, forms.out);
  const uint32_t x = builder.input(op.inputs[0], forms.in);
  const uint32_t y = builder.output(op.outputs[0], forms.out);
  const auto convert = [&](uint32_t to) {
    require_success(xnn_define_convert(builder.subgraph(), x, to, 0), "xnn_define_convert");
  };
  const auto clamp = [&](uint32_t from) {
    require_success(xnn_define_clamp(builder.subgraph(), range.min, range.max, from, y, 0),
                    "xnn_define_clamp");
  };
  if (!op.is("requantize")) {
    if (is_whole) return convert(y);
    const uint32_t rounded = builder.scratch(out, dims);
    convert(rounded);
    return clamp(rounded);
  }
  if (in.qparams->scale == out.qparams->scale && signed_zero_point(in) == signed_zero_point(out))
    return is_whole ? emit_same_shape(builder, dims, x, y) : clamp(x);
  require_success(xnn_define_multiply2(builder.subgraph(), range.min, range.max, x,
                                       builder.scalar_s8(1, 1.0f), y, 0),
                  "xnn_define_multiply2");
}

}  // namespace octet::xnnpack
