// Observers with one range for each block of elements, whatever the blocks: a tensor, a channel, a
// group, a token. convert makes torchao's choose_qparams_affine, quantize_affine and
// dequantize_affine of them. The mathematics is that of torchao's AffineQuantizedMinMaxObserver and
// its relatives, in the dtype of the observed tensor.
#pragma once

#include <memory>
#include <utility>

#include "annotate/annotation/quant_spec.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/observer.h"

namespace octet {

class AffineObserver : public Observer {
 public:
  // min(old, new); old + constant * (new - old), or new alone when dynamic; the range of least
  // squared error, of one constant tensor; looks at no data
  enum class Kind { kMinMax, kMovingAverage, kMse, kPlaceholder };

  // Throws Error("prepare", ...) without ObserverChoice::affine, for dtypes that the affine ops
  // lack, when the kind cannot serve args.is_dynamic, and kMse for asymmetric mappings and dtypes
  // that are not integers.
  AffineObserver(ObserverArgs args, Kind kind);
  // Throws Error("calibrate", ...) when the number of blocks differs from the one before; kMse when
  // the tensor does.
  void observe(const at::Tensor& x) override;
  // One scale and zero point for each block, in row-major order; block_size of the tensor observed
  // last, empty when the state was loaded.
  QParams calculate_qparams() const override;
  // of blocks that are rows' own, each row has what it wants
  Sees sees() const override;
  bool refuses_nan() const override { return true; }
  bool keeps_state() const override { return kind_ != Kind::kPlaceholder; }
  bool has_data() const override { return kind_ == Kind::kPlaceholder || min_.defined(); }
  ObserverState state() const override;
  void set_state(const ObserverState& state) override;
  // Min-max: exactly. Moving averages: as if the other's batches had come next, but for roundings.
  // kMse: both must have chosen the same ranges.
  void merge(const Observer& other) override;

  const AffineOptions& options() const { return *args_.choice.affine; }
  // Elements of each dimension per scale of a tensor of `shape` (-1: unknown); throws as
  // block_size_of does.
  std::vector<int64_t> block_size(std::span<const int64_t> shape) const;
  // (scale, zero point) of the observed blocks. Wants data.
  std::pair<at::Tensor, at::Tensor> observed_qparams() const { return qparams_of(min_, max_); }
  // (scale, zero point) for a tensor of `shape` (known) and `dtype`, in the shape of its blocks and
  // in the dtypes of the options, else in `dtype`. Throws Error("convert", subject, ...) without
  // data, and when the observed blocks are not those of `shape`.
  std::pair<at::Tensor, at::Tensor> qparam_tensors(std::span<const int64_t> shape, DType dtype,
                                                   const std::string& subject) const;
  // Of the tensor observed last; nothing before, and when the state was loaded.
  const std::optional<std::vector<int64_t>>& observed_shape() const { return observed_shape_; }

 private:
  // Minimum and maximum of each block of `view` over `dims`; kMse: what is left of them.
  std::pair<at::Tensor, at::Tensor> ranges_of(const at::Tensor& view,
                                              const std::vector<int64_t>& dims) const;
  std::pair<at::Tensor, at::Tensor> search_ranges(const at::Tensor& view,
                                                  const std::vector<int64_t>& dims) const;
  std::pair<at::Tensor, at::Tensor> qparams_of(const at::Tensor& min, const at::Tensor& max) const;
  bool takes_finer_scales() const;
  // Scales below this leave less than fewest_steps() where eps is the least.
  double finer_below(double eps) const;
  // At least eps, or for float32 scales below finer_below() what allow_finer_scales() said.
  at::Tensor floored(const at::Tensor& scale) const;

  Kind kind_;
  at::Tensor min_;  // one element for each block; undefined: nothing observed
  at::Tensor max_;
  at::Tensor first_min_;  // of the first batch, which a moving average takes whole
  at::Tensor first_max_;
  int64_t batches_ = 0;
  std::optional<std::vector<int64_t>> observed_shape_;
};

// Fake-quants with one scale for each block of elements: a group of a weight's row, a token,
// whatever granularity (affine.h).

// Gradients are 1 inside of a block's quantized range and 0 outside of it. Dynamic specs take the
// range of each batch. Registered as "affine_fake_quantize", with an affine observer in
// parentheses, else the moving average; the affine options are the observer's. convert makes of it
// what it makes of the observer inside.
class AffineFakeQuantize : public FakeQuantize {
 public:
  // Throws Error("prepare", ...) for targets that are no integers.
  AffineFakeQuantize(ObserverArgs args, std::shared_ptr<AffineObserver> observer);

  const AffineObserver& affine() const { return *affine_; }
  // As FakeQuantize; dynamic ranges are those of the batch whether the observer is on or not.
  void observe(const at::Tensor& x) override;
  // One scale and zero point per block, in row-major order.
  void set_qparams(const at::Tensor& scale, const at::Tensor& zero_point) override;

 protected:
  void update_qparams() override;
  at::Tensor round(const at::Tensor& x, double share) override;

 private:
  std::shared_ptr<AffineObserver> affine_;  // the observer
};

// Throws Error("prepare", ...) for observers that are not affine.
std::shared_ptr<Observer> make_affine_fake_quantize(const ObserverArgs& args);

// The observer as an affine one, or the one in its fake-quant; null for others.
const AffineObserver* find_affine_observer(const Observer& observer);

}  // namespace octet
