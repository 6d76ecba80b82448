// A histogram of all values seen, and the range that loses least when it is quantized: values
// outside of it are clipped.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"

namespace octet {

// Per tensor only. Infinities are left out. Counts are exact up to 2^24 in a bin of one batch,
// rounded to float beyond.
class HistogramObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-channel schemes, dynamic quantization, non-integer dtypes
  // and less than 2 bins. alternative: the observer to name for per-channel schemes.
  explicit HistogramObserver(ObserverArgs args,
                             const std::string& alternative = "per_channel_min_max");
  void observe(const at::Tensor& x) override;
  // Searches once; asking again without new data costs nothing. May be asked from several threads
  // at once.
  QParams calculate_qparams() const override;
  void allow_finer_scales(std::vector<float> least) override;
  bool has_data() const override { return has_data_; }
  bool is_idempotent() const override { return false; }
  bool refuses_nan() const override { return true; }
  ObserverState state() const override;
  void set_state(const ObserverState& state) override;
  // The result spans both ranges: minimum, maximum and, but for rounding to float, the total are
  // those of one observer over both. A histogram whose range already is the common one is added as
  // it is, and the other one is spread over the common range as observe() spreads the old histogram
  // when the range grows. That moves a count by less than one bin of the result. So wherever a
  // boundary between bins is taken, as many counts lie below it as in one pass, up to those within
  // k bins, k being how often the two parts and the one pass have spread, plus one.
  void merge(const Observer& other) override;

  struct Range {
    float min;
    float max;
  };
  // torchao's search: gives up values at the ends while the error shrinks. Requires has_data().
  Range search_range() const;

  // What was observed. Requires has_data().
  float min() const { return min_; }
  float max() const { return max_; }
  std::span<const float> counts() const {
    return {histogram_.const_data_ptr<float>(), static_cast<size_t>(bins_)};
  }

 private:
  // What calculate_qparams() maps onto the integers; other kinds choose by other measures.
  virtual Range choose_range() const { return search_range(); }
  void add_counts(const at::Tensor& x, float low, float high, at::Tensor& histogram) const;
  at::Tensor over(float new_min, float new_max) const;  // memory of its own
  void set(at::Tensor histogram, float min, float max);
  double quantization_error(const at::Tensor& density, at::Tensor& errors, int start_bin,
                            int end_bin) const;

  int bins_;
  double dst_bins_;  // 2^bits of the dtype, whatever the quant range
  bool has_data_ = false;
  float min_ = 0;
  float max_ = 0;
  at::Tensor histogram_;  // f32 [bins]

  // Of what was observed so far. Copies share it, so that one of them searches for all: whoever
  // changes takes a new one.
  struct Cache {
    std::mutex mutex;
    std::optional<QParams> qparams;
  };
  std::shared_ptr<Cache> cache_ = std::make_shared<Cache>();
};

}  // namespace octet
