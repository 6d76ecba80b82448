// Finds the ops that follow a product, and converts them to post-ops.
#include "backends/onednn/emit/post_ops.h"

#include "backends/onednn/emit/arithmetic.h"

namespace octet::onednn {
namespace {

// The operand as a float tensor of `shape`'s rank that broadcasts to it, in row-major order or, if
// it has `shape`, in `order`; nullopt when it is stored differently.
std::optional<Stored> find_operand(const SegmentBuilder& builder, int operand, const Dims& shape,
                                   const Dims& order) {
  const Stored* kept = builder.find_kept(operand);
  if (kept == nullptr || kept->quant_params.is_integer()) return std::nullopt;
  if (kept->shape == shape && same_strides(shape, kept->strides, order))
    return Stored{kept->place, kept->quant_params, shape, order};
  if (!same_strides(shape, order, row_major(shape)) ||
      !same_strides(kept->shape, kept->strides, row_major(kept->shape)))
    return std::nullopt;
  Dims dims = kept->shape;
  if (product(dims) == product(shape)) {
    dims = shape;
  } else {
    // Only the number of leading ones may differ.
    while (dims.size() > shape.size() && dims.front() == 1) dims.erase(dims.begin());
    while (dims.size() < shape.size()) dims.insert(dims.begin(), 1);
    if (dims.size() != shape.size()) return std::nullopt;
    for (size_t d = 0; d < shape.size(); ++d)
      if (dims[d] != 1 && dims[d] != shape[d]) return std::nullopt;
  }
  return Stored{kept->place, kept->quant_params, dims, row_major(dims)};
}

std::optional<Follower> as_follower(const SegmentBuilder& builder, const ProgramOp& op, int input) {
  const Dims& shape = builder.tensor(input).shape;
  if (op.outputs.size() != 1 || builder.tensor(op.outputs[0]).shape != shape) return std::nullopt;
  if (op.is("unary") && find_eltwise(op)) return Follower{Follower::Kind::kFunction, &op, -1};
  if (op.is("quantize") && op.attributes.empty() &&
      builder.tensor(op.outputs[0]).qparams->is_per_tensor())
    return Follower{Follower::Kind::kQuantize, &op, -1};
  const bool is_add = op.is("add") && op.get(attr::kAlpha, 1) == 1;
  if ((!is_add && !op.is("mul")) || op.inputs[0] == op.inputs[1]) return std::nullopt;
  const int other = op.inputs[0] == input ? op.inputs[1] : op.inputs[0];
  if (builder.tensor(other).dtype != DType::kFloat32 || !builder.is_made(other))
    return std::nullopt;
  return Follower{is_add ? Follower::Kind::kAdd : Follower::Kind::kMul, &op, other};
}

}  // namespace

std::vector<Follower> find_followers(const SegmentBuilder& builder, const ProgramOp& op) {
  std::vector<Follower> followers;
  int last = op.outputs[0];
  while (builder.tensor(last).dtype == DType::kFloat32) {
    const ProgramOp* reader = builder.find_only_reader(last);
    const std::optional<Follower> follower =
        reader == nullptr ? std::nullopt : as_follower(builder, *reader, last);
    if (!follower) break;
    followers.push_back(*follower);
    last = reader->outputs[0];
  }
  return followers;
}

QuantParams append_followers(SegmentBuilder& builder, std::span<const Follower> followers,
                             const Dims& shape, const Dims& order, dnnl::primitive_attr& attributes,
                             std::vector<Argument>& arguments) {
  dnnl::post_ops post_ops = attributes.get_post_ops();
  QuantParams written;
  for (const Follower& follower : followers) {
    if (follower.kind == Follower::Kind::kFunction) {
      const Eltwise function = *find_eltwise(*follower.op);
      post_ops.append_eltwise(function.algorithm, function.alpha, function.beta);
    } else if (follower.kind == Follower::Kind::kQuantize) {
      written = builder.output_quant_params(follower.op->outputs[0]);
      add_scale(builder, DNNL_ARG_DST, written.scale, attributes, arguments);
      add_zero_point(builder, DNNL_ARG_DST, written.zero_point, attributes, arguments);
    } else {
      static_cast<void>(builder.read(follower.other));
      const std::optional<Stored> operand = find_operand(builder, follower.other, shape, order);
      if (!operand) throw Refusal{"the other operand is kept in another order"};
      const bool is_add = follower.kind == Follower::Kind::kAdd;
      arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_ops.len()) | DNNL_ARG_SRC_1,
                           operand->desc(), operand->place});
      post_ops.append_binary(is_add ? dnnl::algorithm::binary_add : dnnl::algorithm::binary_mul,
                             operand->desc());
      append_clamp(post_ops, clamp_of(*follower.op), {}, 1.0);
    }
  }
  attributes.set_post_ops(post_ops);
  return written;
}

namespace {

int last_output(const ProgramOp& op, std::span<const Follower> followers) {
  return followers.empty() ? op.outputs[0] : followers.back().op->outputs[0];
}

}  // namespace

QuantParams result_form(const SegmentBuilder& builder, const ProgramOp& op,
                        std::span<const Follower> followers, const QuantParams& read,
                        const QuantParams& written) {
  return written.is_integer() || read != kBfloat16 ? written
                                                   : builder.float_form(last_output(op, followers));
}

int absorb_followers(SegmentBuilder& builder, const ProgramOp& op,
                     std::span<const Follower> followers) {
  for (const Follower& follower : followers) builder.absorb(*follower.op);
  return last_output(op, followers);
}

}  // namespace octet::onednn
