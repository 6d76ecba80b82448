// Affine fake-quants: affine observers (affine.h) that also round, for training.
#include "annotate/observers/affine.h"

#include <algorithm>

#include <ATen/ops/fake_quantize_per_channel_affine.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

// The permutation that moves the dimensions of the blocks to the front, and whether it changes
// anything.
struct BlockOrder {
  std::vector<int64_t> order;
  std::vector<int64_t> back;
  bool is_changed = false;
};

BlockOrder blocks_first(const BlockReduction& blocks) {
  BlockOrder result;
  const int64_t rank = static_cast<int64_t>(blocks.shape.size());
  for (int64_t dim = 0; dim < rank; ++dim)
    if (std::ranges::find(blocks.dims, dim) == blocks.dims.end()) result.order.push_back(dim);
  result.order.insert(result.order.end(), blocks.dims.begin(), blocks.dims.end());
  result.back.resize(result.order.size());
  for (size_t i = 0; i < result.order.size(); ++i)
    result.back[static_cast<size_t>(result.order[i])] = static_cast<int64_t>(i);
  result.is_changed = !std::ranges::is_sorted(result.order);
  return result;
}

}  // namespace

AffineFakeQuantize::AffineFakeQuantize(ObserverArgs args, std::shared_ptr<AffineObserver> observer)
    : FakeQuantize(std::move(args), observer, WithBlocks{}), affine_(std::move(observer)) {
  if (!is_integer(args_.dtype))
    throw Error("prepare", args_.choice.name,
                fmt::format("a fake-quant rounds to integers, got {}; use affine_min_max",
                            name_of(args_.dtype)));
}

void AffineFakeQuantize::observe(const at::Tensor& x) {
  if (!observer_enabled_ && !args_.is_dynamic) return;
  affine_->observe(x);
  update_qparams();
}

void AffineFakeQuantize::set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) {
  scale_ = scale.detach().reshape(-1).to(at::kFloat).clone();
  zero_point_ = zero_point.detach().reshape(-1).to(at::kInt).clone();
}

void AffineFakeQuantize::update_qparams() {
  if (!affine_->has_data()) return;
  const auto [scale, zero_point] = affine_->observed_qparams();
  set_qparams(scale, zero_point);
}

at::Tensor AffineFakeQuantize::round(const at::Tensor& x, double) {
  if (!has_data()) return x;  // number of blocks unknown, so no scale
  const BlockReduction blocks = block_reduction(affine_->block_size(x.sizes()), x.sizes());
  const int64_t count = product(blocks.scales);
  if (count != scale_.numel())
    throw Error(
        "train", "",
        fmt::format(
            "the number of blocks with a scale changed, got {}, want {}; give batches of one shape",
            count, scale_.numel()));
  const BlockOrder order = blocks_first(blocks);
  at::Tensor view = x.reshape(blocks.shape);
  if (order.is_changed) view = view.permute(order.order);
  const std::vector<int64_t> folded = view.sizes().vec();
  at::Tensor result = at::fake_quantize_per_channel_affine(view.reshape({count, -1}), scale_,
                                                           zero_point_, 0, quant_min_, quant_max_)
                          .reshape(folded);
  if (order.is_changed) result = result.permute(order.back);
  return result.reshape(x.sizes());
}

std::shared_ptr<Observer> make_affine_fake_quantize(const ObserverArgs& args) {
  const std::shared_ptr<Observer> inner =
      make_inner_observer(args, "affine_moving_average_min_max");
  const std::shared_ptr<AffineObserver> affine = std::dynamic_pointer_cast<AffineObserver>(inner);
  if (affine == nullptr)
    throw Error("prepare", args.choice.name,
                fmt::format("this fake-quant has an affine observer, got {}; use fake_quantize",
                            inner->args().choice.name));
  if (!affine->keeps_state())
    throw Error("prepare", args.choice.name,
                "a fake-quant needs a scale, which affine_placeholder does not have; leave it out");
  return std::make_shared<AffineFakeQuantize>(args, affine);
}

const AffineObserver* find_affine_observer(const Observer& observer) {
  if (const AffineFakeQuantize* fake_quant = dynamic_cast<const AffineFakeQuantize*>(&observer))
    return &fake_quant->affine();
  return dynamic_cast<const AffineObserver*>(&observer);
}

}  // namespace octet
