#include "annotate/accuracy/weight_grid.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "annotate/observers/affine.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

// Expands one value per block to the shape of the weight.
at::Tensor spread_blocks(const at::Tensor& blocks, const BlockReduction& reduction,
                         const at::Tensor& weight) {
  std::vector<int64_t> kept = reduction.shape;
  for (const int64_t dim : reduction.dims) kept[static_cast<size_t>(dim)] = 1;
  return blocks.to(weight.scalar_type())
      .reshape(kept)
      .expand(reduction.shape)
      .reshape(weight.sizes());
}

WeightGrid affine_grid(const AffineObserver& observer, const at::Tensor& weight,
                       const std::string& subject) {
  const std::vector<int64_t> block =
      block_size_of(observer.options().granularity, weight.sizes(), subject);
  const BlockReduction reduction = block_reduction(block, weight.sizes());
  const auto [scale, zero_point] =
      observer.qparam_tensors(weight.sizes(), from_scalar_type(weight.scalar_type()), subject);
  return {spread_blocks(scale, reduction, weight), spread_blocks(zero_point, reduction, weight),
          observer.quant_min(), observer.quant_max()};
}

at::Tensor spread_channels(const at::Tensor& values, int axis, const at::Tensor& weight) {
  std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
  if (axis >= 0) shape[static_cast<size_t>(axis)] = weight.size(axis);
  return values.to(weight.scalar_type()).reshape(shape).expand(weight.sizes());
}

}  // namespace

at::Tensor WeightGrid::nearest(const at::Tensor& weight) const {
  const at::Tensor q =
      at::round(weight.to(at::kDouble) / scale.to(at::kDouble)) + zero_point.to(at::kDouble);
  return at::clamp(q, static_cast<double>(quant_min), static_cast<double>(quant_max));
}

at::Tensor WeightGrid::values(const at::Tensor& q) const {
  return (q.to(scale.scalar_type()) - zero_point) * scale;
}

Verdict has_weight_grid(const Observer& observer, const at::Tensor& weight) {
  const ObserverArgs& args = observer.args();
  if (weight.scalar_type() != at::kFloat && weight.scalar_type() != at::kDouble)
    return Verdict::refuse(fmt::format("its weight is {}, want float32 or float64",
                                       name_of(from_scalar_type(weight.scalar_type()))));
  if (args.is_dynamic) return Verdict::refuse("its weight gets its scale at run time");
  if (!is_integer(args.dtype) || size_of(args.dtype) > 4)
    return Verdict::refuse(
        fmt::format("its weight becomes {}, want an integer", name_of(args.dtype)));
  if (args.qscheme == QScheme::kPerChannelAffineFloatQParams)
    return Verdict::refuse("its weight has zero points that are not integers");
  return Verdict::accept();
}

WeightGrid weight_grid(const Observer& observer, const at::Tensor& weight,
                       const std::string& subject) {
  if (!observer.has_data())
    throw Error("convert", subject, "the observer of the weight saw no data; calibrate first");
  if (const AffineObserver* affine = dynamic_cast<const AffineObserver*>(&observer))
    return affine_grid(*affine, weight, subject);
  const QParams qparams = observer.calculate_qparams();
  const int64_t channels =
      qparams.axis >= 0 && qparams.axis < weight.dim() ? weight.size(qparams.axis) : 1;
  if (qparams.axis >= weight.dim() || static_cast<int64_t>(qparams.scale.size()) != channels)
    throw Error("convert", subject,
                fmt::format("the weight's observer saw {} channels, want {}; calibrate again",
                            qparams.scale.size(), channels));
  return {spread_channels(at::tensor(qparams.scale), qparams.axis, weight),
          spread_channels(at::tensor(qparams.zero_point), qparams.axis, weight),
          observer.quant_min(), observer.quant_max()};
}

}  // namespace octet
