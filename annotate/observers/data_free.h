// Observers that choose no range from data: qparams computed at run time, fixed in advance or
// derived from other observers, and an observer that only records.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"

namespace octet {

class DataFreeObserver : public Observer {
 public:
  void observe(const at::Tensor&) override {}
  Sees sees() const override { return Sees::kNothing; }
  bool has_data() const override { return true; }
  bool keeps_state() const override { return false; }
  void merge(const Observer&) override {}

 protected:
  DataFreeObserver(const ObserverArgs& args, IntegerRange range) : Observer(args, range) {}
};

// Carries the configuration of dynamic quantization and of float16. calculate_qparams() throws.
class PlaceholderObserver : public DataFreeObserver {
 public:
  explicit PlaceholderObserver(ObserverArgs args);
  QParams calculate_qparams() const override;
};

// Like PlaceholderObserver, but never dynamic: for dtypes that need no range (float16).
class NoopObserver : public DataFreeObserver {
 public:
  // Throws Error("prepare", ...) for dynamic quantization.
  explicit NoopObserver(ObserverArgs args);
  QParams calculate_qparams() const override;
};

class FixedQParamsObserver : public DataFreeObserver {
 public:
  explicit FixedQParamsObserver(const FixedQParamsQuantizationSpec& spec);
  QParams calculate_qparams() const override;

 private:
  double scale_;
  int64_t zero_point_;
};

class DerivedObserver : public DataFreeObserver {
 public:
  // calculate_qparams() checks the result of derive_qparams_fn (check_qparams) and throws
  // Error("convert", "", ...), which names the function.
  DerivedObserver(const DerivedQuantizationSpec& spec,
                  std::vector<std::shared_ptr<Observer>> sources);
  QParams calculate_qparams() const override;
  bool has_data() const override;
  const std::vector<std::shared_ptr<Observer>>& sources() const { return sources_; }
  const std::string& function() const { return derive_name_; }  // name of the function
  // Replaces a source; the qparams then follow `now`. False when `before` is not a source.
  bool replace_source(const std::shared_ptr<Observer>& before,
                      const std::shared_ptr<Observer>& now);

 private:
  std::string derive_name_;
  DeriveQParamsFn derive_;
  std::vector<std::shared_ptr<Observer>> sources_;
};

// Keeps every tensor it sees, for debugging. It has no scale, so a graph prepared with it can be
// calibrated and read but not converted.

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

  // In the order of observation; copies.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
};

}  // namespace octet
