// Observers that look at no data: qparams computed at run time, known beforehand, or taken from
// other observers.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"

namespace octet {

// Carries the configuration of dynamic quantization and of float16; calculate_qparams() throws.
class PlaceholderObserver : public Observer {
 public:
  explicit PlaceholderObserver(ObserverArgs args);
  void observe(const at::Tensor&) override {}
  Sees sees() const override { return Sees::kNothing; }
  QParams calculate_qparams() const override;
  bool has_data() const override { return true; }
  bool keeps_state() const override { return false; }
  void merge(const Observer&) override {}
  double min_scale() const;  // eps of choose_qparams
};

// Like the placeholder, but never dynamic: marks a tensor whose dtype (float16) needs no range.
class NoopObserver : public Observer {
 public:
  // Throws Error("prepare", ...) for dynamic quantization.
  explicit NoopObserver(ObserverArgs args);
  void observe(const at::Tensor&) override {}
  Sees sees() const override { return Sees::kNothing; }
  QParams calculate_qparams() const override;
  bool has_data() const override { return true; }
  bool keeps_state() const override { return false; }
  void merge(const Observer&) override {}
};

class FixedQParamsObserver : public Observer {
 public:
  explicit FixedQParamsObserver(const FixedQParamsQuantizationSpec& spec);
  void observe(const at::Tensor&) override {}
  Sees sees() const override { return Sees::kNothing; }
  QParams calculate_qparams() const override;
  bool has_data() const override { return true; }
  bool keeps_state() const override { return false; }
  void merge(const Observer&) override {}

 private:
  double scale_;
  int64_t zero_point_;
};

class DerivedObserver : public Observer {
 public:
  // calculate_qparams() checks what derive_qparams_fn returns (check_qparams) and throws
  // Error("convert", "", ...), which names the function.
  DerivedObserver(const DerivedQuantizationSpec& spec,
                  std::vector<std::shared_ptr<Observer>> sources);
  void observe(const at::Tensor&) override {}
  Sees sees() const override { return Sees::kNothing; }
  QParams calculate_qparams() const override;
  bool has_data() const override;
  bool keeps_state() const override { return false; }
  void merge(const Observer&) override {}
  const std::vector<std::shared_ptr<Observer>>& sources() const { return sources_; }
  const std::string& function() const { return derive_name_; }  // its name
  // Another observer takes the place of a source: the qparams follow it. False when `before` is
  // none of the sources.
  bool replace_source(const std::shared_ptr<Observer>& before,
                      const std::shared_ptr<Observer>& now);

 private:
  std::string derive_name_;
  DeriveQParamsFn derive_;
  std::vector<std::shared_ptr<Observer>> sources_;
};

// Keeps every tensor it sees, for debugging. It has no scale: a graph prepared with it is
// calibrated and read, not converted.

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
