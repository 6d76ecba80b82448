// Keeps every tensor it sees, for debugging. It has no scale: a graph prepared with it is
// calibrated and read, not converted.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"

namespace octet {

class RecordingObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for dynamic quantization.
  explicit RecordingObserver(ObserverArgs args);
  void observe(const at::Tensor& x) override { tensors_.push_back(x.detach().clone()); }
  QParams calculate_qparams() const override;
  bool has_data() const override { return !tensors_.empty(); }
  bool is_idempotent() const override { return false; }
  bool keeps_state() const override { return false; }
  void merge(const Observer& other) override;

  // In the order of observation; copies of their own.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
};

}  // namespace octet
