// Collects a histogram of all values and chooses the range whose quantization loses least; values
// outside are clipped.
#pragma once

#include <mutex>

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"

namespace octet {

// Per tensor only. Infinities are ignored. Counts are exact up to 2^24 per bin and batch, and
// rounded to float beyond.
class HistogramObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-channel schemes, dynamic quantization, non-integer dtypes
  // and fewer than 2 bins. alternative: the observer that the message suggests for per-channel
  // schemes.
  explicit HistogramObserver(ObserverArgs args,
                             const std::string& alternative = "per_channel_min_max");
  void observe(const at::Tensor& x) override;
  // Searches once; another call without new data is free. Thread-safe.
  QParams calculate_qparams() const override;
  void allow_finer_scales(std::vector<float> least) override;
  bool has_data() const override { return has_data_; }
  bool is_idempotent() const override { return false; }
  bool refuses_nan() const override { return true; }
  ObserverState state() const override;
  void set_state(const ObserverState& state) override;
  // The result spans both ranges; minimum, maximum and, up to float rounding, the total are those
  // of one observer over both. A histogram that already has the common range is added unchanged;
  // the other is spread over the common range like the old histogram when observe() extends the
  // range, which moves a count by less than one bin of the result. Cumulative counts at any bin
  // boundary therefore equal those of a single pass up to the counts within k bins, where k is how
  // often the two parts and the single pass have spread, plus one.
  //
  // Example: [0, 4) with counts 3 1 merged with [0, 8) with counts 2 2 gives [0, 8): the first
  // becomes 4 0, the sum is 6 2.
  void merge(const Observer& other) override;

  struct Range {
    float min;
    float max;
  };
  // torchao's search: drops values at the ends while the error shrinks. Requires has_data().
  Range search_range() const;

  // The observed values. Requires has_data().
  float min() const { return min_; }
  float max() const { return max_; }
  std::span<const float> counts() const {
    return {histogram_.const_data_ptr<float>(), static_cast<size_t>(bins_)};
  }

 private:
  // The range that calculate_qparams() maps to integers; subclasses choose by other criteria.
  virtual Range choose_range() const { return search_range(); }
  void add_counts(const at::Tensor& x, float low, float high, at::Tensor& histogram) const;
  at::Tensor over(float new_min, float new_max) const;  // a copy
  void set(at::Tensor histogram, float min, float max);
  double quantization_error(const at::Tensor& density, at::Tensor& errors, int start_bin,
                            int end_bin) const;

  int bins_;
  double dst_bins_;  // 2^bits of the dtype, whatever the quant range
  bool has_data_ = false;
  float min_ = 0;
  float max_ = 0;
  at::Tensor histogram_;  // f32 [bins]

  // The result for what was observed so far. Copies of the observer share it, so that only one of
  // them searches; an observer that changes gets a new one.
  struct Cache {
    std::mutex mutex;
    std::optional<QParams> qparams;
  };
  std::shared_ptr<Cache> cache_ = std::make_shared<Cache>();
};

}  // namespace octet
