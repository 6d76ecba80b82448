// Emits linear (constant weights, packed in advance) and matmul (two activations).
#include <algorithm>
#include <string_view>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/bytes/conv.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/byte_conv.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/emit/post_ops.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

Stored with_shape(const Stored& dense, const Dims& shape) {
  return {dense.place, dense.quant_params, shape, row_major(shape)};
}

// The second factor as s8, the only type that oneDNN's kernels support.
QuantParams as_signed(QuantParams quant_params) {
  if (quant_params.type == ElementType::u8)
    quant_params = {ElementType::s8, quant_params.scale, quant_params.zero_point - 128};
  return quant_params;
}

// Keeps matrices whose last two dimensions are dense in either order, which oneDNN reads; others
// become row-major.
Stored as_matrices(SegmentBuilder& builder, const Stored& stored, const QuantParams& quant_params) {
  const size_t rank = stored.shape.size();
  Dims transposed = stored.shape;
  std::swap(transposed[rank - 1], transposed[rank - 2]);
  Dims strides = row_major(transposed);
  std::swap(strides[rank - 1], strides[rank - 2]);
  if (stored.quant_params == quant_params && same_strides(stored.shape, stored.strides, strides))
    return {stored.place, quant_params, stored.shape, strides};
  return convert(builder, stored, quant_params, row_major(stored.shape));
}

// A product with its scales, zero points and post-ops, and their arguments.
struct MatmulProduct {
  dnnl::matmul::primitive_desc desc;
  std::vector<Argument> arguments;
  QuantParams written;
};

}  // namespace

namespace {

// Emits byte tiles on CPUs where they are the best kernels; false for floats.
bool emit_linear_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& wt = builder.tensor(op.inputs[1]);
  const Dims& y = builder.tensor(op.outputs[0]).shape;
  const int64_t n = wt.shape[0], k = wt.shape[1], m = xt.numel() / k;
  const ByteConvShape shape = linear_shape(m, k, n);
  if (!has_byte_conv(shape)) return false;
  const Arithmetic plan = plan_arithmetic(builder, op, n, true, Sums::kExact);
  if (!plan.is_integer) return false;
  const std::optional<ByteConvOutput> output =
      byte_output(plan, plan.y, clamp_of(op), nullptr, wt.shape, false);
  if (!output) return false;
  const Stored x = convert(builder, builder.read(op.inputs[0]), plan.x, row_major(xt.shape));
  const Stored to = builder.allocate(y, plan.y, row_major(y));
  add_byte_conv(builder, "linear", shape, wt.data, *output,
                {builder.saturation().highest_byte(op.inputs[0]), output->scales.padding}, x.place,
                to.place, nullptr);
  define_result(builder, op.outputs[0], to);
  return true;
}

}  // namespace

void emit_linear(SegmentBuilder& builder, const ProgramOp& op) {
  if (emit_dynamic_linear(builder, op) || emit_dynamic_group_linear(builder, op) ||
      emit_weight_only_linear(builder, op))
    return;
  if (emit_linear_by_byte_tiles(builder, op)) return;
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& wt = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const int64_t n = wt.shape[0];
  const int64_t k = wt.shape[1];
  const int64_t m = xt.numel() / k;
  const Arithmetic plan = plan_arithmetic(builder, op, n, true);
  const Stored x =
      with_shape(convert(builder, builder.read(op.inputs[0]), plan.x, row_major(xt.shape)), {m, k});
  const dnnl::memory::desc w({k, n}, plan.is_integer ? ElementType::s8 : ElementType::f32,
                             dnnl::memory::dims{1, k});
  const dnnl::memory::desc w_any({k, n}, plan.is_integer ? ElementType::s8 : plan.x.type,
                                 dnnl::memory::format_tag::any);
  const dnnl::memory::desc bias =
      plan.bias.empty() ? dnnl::memory::desc()
                        : dnnl::memory::desc({1, n}, ElementType::f32, dnnl::memory::dims{n, 1});
  const auto plan_product = [&](std::span<const Follower> followers) {
    MatmulProduct product;
    dnnl::primitive_attr attributes = integer_attributes(
        builder, plan, plan.scale.size() > 1 ? 2 : 0, true, clamp_of(op), product.arguments);
    product.written =
        append_followers(builder, followers, {m, n}, {n, 1}, attributes, product.arguments);
    if (followers.empty()) product.written = plan.y;
    product.written = result_form(builder, op, followers, plan.x, product.written);
    const dnnl::memory::desc y({m, n}, product.written.type, dnnl::memory::dims{n, 1});
    product.desc = dnnl::matmul::primitive_desc(cpu_engine(), x.desc(), w_any, bias, y, attributes);
    refuse_reference_kernel("linear", product.desc.impl_info_str());
    return product;
  };
  const std::vector<Follower> followers = find_followers(builder, op);
  auto [product, count] = plan_with_most_followers(followers, plan_product);
  const int output = absorb_followers(builder, op, {followers.data(), count});
  const Stored y = builder.allocate(yt.shape, product.written, row_major(yt.shape));
  if (!plan.bias.empty())
    product.arguments.push_back({DNNL_ARG_BIAS, bias, builder.add_floats(plan.bias).place});
  product.arguments.push_back(
      {DNNL_ARG_WEIGHTS, product.desc.weights_desc(),
       pack_weights(builder, op.inputs[1], w, product.desc.weights_desc())});
  product.arguments.push_back({DNNL_ARG_SRC, x.desc(), x.place});
  product.arguments.push_back({DNNL_ARG_DST, product.desc.dst_desc(), y.place});
  builder.add_primitive("linear", product.desc, std::move(product.arguments));
  if (plan.is_integer || count > 0) {
    builder.define(output, y);
  } else {
    define_real(builder, output, y);
  }
}

namespace {

// Whether oneDNN can read the factor from its place in memory: rows or columns without gaps,
// nothing repeated.
bool has_matrix_strides(const Stored& stored, const QuantParams& quant_params) {
  const size_t rank = stored.shape.size();
  bool repeats = false;
  for (size_t d = 0; d < rank; ++d)
    repeats = repeats || (stored.strides[d] == 0 && stored.shape[d] != 1);
  return stored.quant_params == quant_params && !repeats &&
         (stored.strides[rank - 1] == 1 || stored.strides[rank - 2] == 1);
}

// Calls plan(a, b) on the factors in place if oneDNN has a fast kernel for them, else on row-major
// copies.
template <typename Plan>
auto plan_with_least_copies(SegmentBuilder& builder, const Stored& a, const QuantParams& qa,
                            const Stored& b, const QuantParams& qb, const Plan& plan) {
  if (has_matrix_strides(a, qa) && has_matrix_strides(b, qb)) {
    try {
      auto planned = plan(a, b);
      if (std::string_view(planned.first.desc.impl_info_str()).starts_with("brg")) return planned;
    } catch (const dnnl::error&) {
    } catch (const Refusal&) {
    }
  }
  return plan(as_matrices(builder, a, qa), as_matrices(builder, b, qb));
}

// Emits byte tiles on CPUs where they are the best kernels; false if a factor has floats.
bool emit_matmul_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  const Stored a = with_rank(builder.read(op.inputs[0]), shape.size()),
               b = with_rank(builder.read(op.inputs[1]), shape.size());
  const int64_t depth = a.shape.back();
  if (!a.quant_params.is_integer() || !b.quant_params.is_integer() || !has_byte_matmul(depth))
    return false;
  const QuantParams written = builder.output_quant_params(op.outputs[0]);
  const double scale = static_cast<double>(a.quant_params.scale) * b.quant_params.scale;
  ByteConvOutput output;
  if (written.is_integer()) {
    const QuantParams steps = as_unsigned(written);
    const StepRange range = clamp_in_steps(steps, clamp_of(op));
    output.output = TileOutput::kBytes;
    output.is_fused = false;
    output.zero_point = static_cast<float>(written.zero_point);
    output.scales = {{static_cast<float>(scale / steps.scale)}, {0.0f}};
    output.scales.low = static_cast<uint8_t>(range.low);
    output.scales.high = static_cast<uint8_t>(range.high);
    output.scales.is_signed = written.type == ElementType::s8;
    // the steps fit 32 bits
    if (!(output.scales.scale[0] * 255.0 * 255.0 * static_cast<double>(depth) < 1e9)) return false;
  } else {
    Arithmetic plan;
    plan.scale = {static_cast<float>(scale)};
    output = real_output(plan, clamp_of(op), 1);
  }
  const Stored y = builder.allocate(shape, written, row_major(shape));
  ScratchLoop loop = byte_matmul_loop(a, b, y, output);
  const Place scratch = builder.allocate({loop.scratch_bytes}, {ElementType::u8, 1, 0}, {1}).place;
  builder.add_loop("matmul", std::move(loop.loop), {a.place, b.place, y.place, scratch},
                   loop.kernel);
  define_result(builder, op.outputs[0], y);
  return true;
}

}  // namespace

void emit_matmul(SegmentBuilder& builder, const ProgramOp& op) {
  if (emit_matmul_by_byte_tiles(builder, op)) return;
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const Stored a0 = builder.read(op.inputs[0]);
  const Stored b0 = builder.read(op.inputs[1]);
  const bool is_integer = a0.quant_params.is_integer() && b0.quant_params.is_integer() &&
                          !builder.saturation().may_saturate(op, 128);
  const QuantParams real = builder.computes_in_bfloat16(op) ? kBfloat16 : QuantParams{};
  const QuantParams qa = is_integer ? as_unsigned(a0.quant_params) : real;
  const QuantParams qb = is_integer ? as_signed(b0.quant_params) : real;
  const QuantParams qy = is_integer ? builder.output_quant_params(op.outputs[0]) : QuantParams{};
  const double unit = qy.is_integer() ? qy.scale : 1.0;
  const auto plan_product = [&](const Stored& a, const Stored& b,
                                std::span<const Follower> followers) {
    MatmulProduct product;
    dnnl::primitive_attr attributes = new_attributes();
    if (is_integer) {
      add_scale(builder, DNNL_ARG_WEIGHTS,
                static_cast<float>(static_cast<double>(qa.scale) * qb.scale / unit), attributes,
                product.arguments);
      add_zero_point(builder, DNNL_ARG_SRC, qa.zero_point, attributes, product.arguments);
      add_zero_point(builder, DNNL_ARG_WEIGHTS, qb.zero_point, attributes, product.arguments);
      add_zero_point(builder, DNNL_ARG_DST, qy.zero_point, attributes, product.arguments);
    }
    dnnl::post_ops post_ops;
    append_clamp(post_ops, clamp_of(op), qy, unit);
    attributes.set_post_ops(post_ops);
    product.written = append_followers(builder, followers, yt.shape, row_major(yt.shape),
                                       attributes, product.arguments);
    if (followers.empty()) product.written = qy;
    product.written = result_form(builder, op, followers, qa, product.written);
    const dnnl::memory::desc y(yt.shape, product.written.type, row_major(yt.shape));
    product.desc = dnnl::matmul::primitive_desc(cpu_engine(), a.desc(), b.desc(), y, attributes);
    refuse_reference_kernel("matmul", product.desc.impl_info_str());
    product.arguments.push_back({DNNL_ARG_SRC, a.desc(), a.place});
    product.arguments.push_back({DNNL_ARG_WEIGHTS, b.desc(), b.place});
    return product;
  };
  const std::vector<Follower> followers = find_followers(builder, op);
  auto [product, count] =
      plan_with_least_copies(builder, a0, qa, b0, qb, [&](const Stored& a, const Stored& b) {
        const Stored wide_a = with_rank(a, yt.shape.size()), wide_b = with_rank(b, yt.shape.size());
        return plan_with_most_followers(followers, [&](std::span<const Follower> some) {
          return plan_product(wide_a, wide_b, some);
        });
      });
  const int output = absorb_followers(builder, op, {followers.data(), count});
  const Stored y = builder.allocate(yt.shape, product.written, row_major(yt.shape));
  product.arguments.push_back({DNNL_ARG_DST, product.desc.dst_desc(), y.place});
  builder.add_primitive("matmul", product.desc, std::move(product.arguments));
  if (is_integer || count > 0) {
    builder.define(output, y);
  } else {
    define_real(builder, output, y);
  }
}

}  // namespace octet::onednn
