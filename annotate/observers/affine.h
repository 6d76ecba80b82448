// Observers and fake-quants with one range per block of elements, for any blocks: a tensor, a
// channel, a group, a token. Convert writes torchao's choose_qparams_affine, quantize_affine and
// dequantize_affine for them. The arithmetic is that of torchao's AffineQuantizedMinMaxObserver and
// its relatives, in the dtype of the observed tensor.
#pragma once

#include <utility>

#include "annotate/annotation/quant_spec.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/observer.h"

namespace octet {

class AffineObserver : public Observer {
 public:
  // In this order: min(old, new); old + constant * (new - old), or new alone when dynamic; the
  // range with the least squared error, for one constant tensor; looks at no data
  enum class Kind { kMinMax, kMovingAverage, kMse, kPlaceholder };

  // Throws Error("prepare", ...) without ObserverChoice::affine, for dtypes that the affine ops
  // lack, when the kind does not support args.is_dynamic, and for kMse with asymmetric mappings or
  // non-integer dtypes.
  AffineObserver(ObserverArgs args, Kind kind);
  // Throws Error("calibrate", ...) when the number of blocks (kMse: the tensor) differs from the
  // previous one.
  void observe(const at::Tensor& x) override;
  // Whether it searches ranges of minimal squared error (kMse).
  bool searches() const { return kind_ == Kind::kMse; }
  // Observes a tensor whose squared errors count `importance` times, which broadcasts to it.
  // Returns the sum of its squared errors, weighted so. REQUIRES: searches() and !has_data().
  double fit(const at::Tensor& x, const at::Tensor& importance);
  // One scale and zero point per block, in row-major order, with the block_size of the last
  // observed tensor; empty when the state was loaded.
  QParams calculate_qparams() const override;
  // kNothing when no block spans rows
  Sees sees() const override;
  bool refuses_nan() const override { return true; }
  bool keeps_state() const override { return kind_ != Kind::kPlaceholder; }
  bool has_data() const override { return kind_ == Kind::kPlaceholder || min_.defined(); }
  ObserverState state() const override;
  void set_state(const ObserverState& state) override;
  // Min-max: exact. Moving averages: as if the other's batches had come next, up to rounding. kMse:
  // both must have chosen the same ranges.
  void merge(const Observer& other) override;

  const AffineOptions& options() const { return *args_.choice.affine; }
  // Elements of each dimension per scale for a tensor of `shape` (-1: unknown). Throws as
  // block_size_of does.
  std::vector<int64_t> block_size(std::span<const int64_t> shape) const;
  // (scale, zero point) of the observed blocks. Requires data.
  std::pair<at::Tensor, at::Tensor> observed_qparams() const { return qparams_of(min_, max_); }
  // (scale, zero point) for a tensor of the known `shape` and of `dtype`, in the shape of its
  // blocks and in the dtypes of the options, else in `dtype`. Throws Error("convert", subject, ...)
  // without data, and when the observed blocks are not those of `shape`.
  std::pair<at::Tensor, at::Tensor> qparam_tensors(std::span<const int64_t> shape, DType dtype,
                                                   const std::string& subject) const;
  // The shape of the last observed tensor; nothing without one and when the state was loaded.
  const std::optional<std::vector<int64_t>>& observed_shape() const { return observed_shape_; }

 private:
  // Minimum and maximum of each block of `view` over `dims`; for kMse after the search.
  std::pair<at::Tensor, at::Tensor> ranges_of(const at::Tensor& view,
                                              const std::vector<int64_t>& dims) const;
  struct Found {
    at::Tensor low, high;  // one element per block
    double error = 0;      // weighted; 0 without importance
  };
  // importance: of the shape of `view`; undefined: 1
  Found search_ranges(const at::Tensor& view, const std::vector<int64_t>& dims,
                      const at::Tensor& importance = {}) const;
  std::pair<at::Tensor, at::Tensor> qparams_of(const at::Tensor& min, const at::Tensor& max) const;
  bool takes_finer_scales() const;
  // Scales below this leave fewer than fewest_steps() when eps is the least scale.
  double finer_below(double eps) const;
  // The scale, at least eps or, for float32 scales below finer_below(), at least what
  // allow_finer_scales() allowed.
  at::Tensor floored(const at::Tensor& scale) const;

  Kind kind_;
  at::Tensor min_;  // one element per block; undefined: nothing observed
  at::Tensor max_;
  at::Tensor first_min_;  // of the first batch, with which a moving average starts
  at::Tensor first_max_;
  int64_t batches_ = 0;
  std::optional<std::vector<int64_t>> observed_shape_;
};

// A fake-quant with one scale per block of elements. Gradients are 1 inside a block's quantized
// range and 0 outside. Dynamic specs use the range of each batch. Registered as
// "affine_fake_quantize", with an affine observer in parentheses, by default the moving average;
// the affine options are the observer's. Convert treats it like the observer inside.
class AffineFakeQuantize : public FakeQuantize {
 public:
  // Throws Error("prepare", ...) for non-integer targets.
  AffineFakeQuantize(ObserverArgs args, std::shared_ptr<AffineObserver> observer);

  const AffineObserver& affine() const { return *affine_; }
  // As FakeQuantize. Dynamic ranges are those of the batch even when the observer is off.
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

// The observer itself, or the observer inside a fake-quant, when it is affine; else null.
const AffineObserver* find_affine_observer(const Observer& observer);

}  // namespace octet
