// A histogram of all values seen, and the range that loses least when it is quantized: values outside of it are clipped.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/observer.h"

namespace octet {

// Per tensor only. Infinities are left out.
class HistogramObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for per-channel schemes, dynamic quantization, non-integer dtypes and less than 2 bins.
  explicit HistogramObserver(ObserverArgs args);
  void observe(const at::Tensor& x) override;
  QParams calculate_qparams() const override;
  bool has_data() const override { return has_data_; }
  bool is_idempotent() const override { return false; }
  ObserverState state() const override;
  void set_state(const ObserverState& state) override;

  // The range that calculate_qparams() maps onto the integers. Requires has_data().
  struct Range {
    float min;
    float max;
  };
  Range search_range() const;

 private:
  at::Tensor combine(const at::Tensor& update, float new_min, float new_max) const;
  at::Tensor spread_over(float new_min, float new_max) const;
  double quantization_error(int start_bin, int end_bin) const;

  int bins_;
  double dst_bins_;  // 2^bits of the dtype, whatever the quant range
  bool has_data_ = false;
  float min_ = 0;
  float max_ = 0;
  at::Tensor histogram_;  // f32 [bins]
  at::Tensor errors_;     // f32 [bins], scratch of quantization_error
};

}  // namespace octet
