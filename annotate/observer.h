// Observers: what turns the values that flow over an edge into scale and zero point. One class per kind, one instance per sharing group.
// The mathematics is torchao's quantization/pt2e/observer.py (1.3 of its feature table), to the bit where float order allows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/quant_spec.h"

namespace octet {

// real = scale * (quantized - zero_point).
struct QParams {
  std::vector<float> scale;          // > 0; size 1, or the channel count
  std::vector<int64_t> zero_point;   // in [quant_min, quant_max]; same size as scale
  std::vector<float> float_zero_point;  // of per_channel_affine_float_qparams only, then zero_point is empty
  int axis = -1;                     // -1: per tensor
};

// What every observer knows about its target.
struct ObserverArgs {
  DType dtype = DType::kInt8;
  QScheme qscheme = QScheme::kPerTensorAffine;
  std::optional<int64_t> quant_min;
  std::optional<int64_t> quant_max;
  std::optional<int> ch_axis;
  bool is_dynamic = false;
  bool reduce_range = false;
  ObserverChoice choice;
};

class Observer {
 public:
  explicit Observer(ObserverArgs args);
  virtual ~Observer() = default;
  // Takes in one batch. Throws Error on NaN (with the caller's subject added by calibrate()).
  virtual void observe(const at::Tensor& x) = 0;
  // Throws Error("convert", ...) when nothing was observed and the kind needs data.
  virtual QParams calculate_qparams() const = 0;
  virtual bool has_data() const = 0;
  const ObserverArgs& args() const { return args_; }
  int64_t quant_min() const { return quant_min_; }  // resolved: the given one or the dtype's
  int64_t quant_max() const { return quant_max_; }

 protected:
  ObserverArgs args_;
  int64_t quant_min_;
  int64_t quant_max_;
};

// By registered name: min_max, moving_average_min_max, per_channel_min_max, moving_average_per_channel_min_max, histogram, placeholder.
// Throws Error naming the known ones.
std::shared_ptr<Observer> make_observer(const ObserverArgs& args);

}  // namespace octet
