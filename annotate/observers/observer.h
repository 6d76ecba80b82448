// Observers: what turns the values that flow over an edge into scale and zero point. One class per
// kind, one instance per sharing group. The mathematics is torchao's quantization/pt2e/observer.py,
// to the bit where float order allows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/annotation/qparams.h"
#include "annotate/annotation/quant_spec.h"

namespace octet {

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
  // QParamsTarget::finest; what prepare and convert set (annotate/observed/scale_floor.h)
  std::vector<float> finest_scales = {};
};

// Everything an observer has learned, for saving between processes. Empty vectors: nothing observed
// yet, or not kept by this kind.
struct ObserverState {
  std::vector<float> min = {};
  std::vector<float> max = {};
  std::vector<float> histogram = {};
  // how many batches were observed, for kinds that average; 0 when not kept
  int64_t batches = 0;
  // of the first batch alone, for kinds that average: what merging needs
  std::vector<float> first_min = {};
  std::vector<float> first_max = {};
  bool operator==(const ObserverState&) const = default;
};

// What a kind takes from a tensor: enough to know how parts of a batch become one.
enum class Sees {
  kNothing,      // or what each row has for itself
  kEnds,         // minimum and maximum
  kChannelEnds,  // those of each index of dimension ch_axis (default 0)
  kAll
};

class Observer {
 public:
  // Resolves the quant range; throws Error("prepare", ...) when the arguments contradict each
  // other.
  explicit Observer(ObserverArgs args);
  virtual ~Observer() = default;
  // Takes in one batch. Throws Error("calibrate", "", ...) on NaN; calibrate() adds the subject.
  virtual void observe(const at::Tensor& x) = 0;
  // What an observer node hands on after observe(x): x itself, but for fake-quants, which give
  // x quantized and dequantized.
  virtual at::Tensor forward(const at::Tensor& x) {
    observe(x);
    return x;
  }
  // The same for x that is a part of a batch. `ends`, which is observed, has the least and greatest
  // values of the whole batch, as sees() wants them; undefined: nothing is observed. share: of the
  // batch's elements that x has, in (0, 1].
  virtual at::Tensor forward_part(const at::Tensor& x, const at::Tensor& ends, double share);
  virtual Sees sees() const { return Sees::kAll; }
  // Whether forward() observes as things are switched.
  virtual bool observes() const { return true; }
  // Throws Error("convert", ...) when nothing was observed and the kind needs data.
  virtual QParams calculate_qparams() const = 0;
  virtual bool has_data() const = 0;
  // Whether seeing the same tensor twice in a row leaves the same state as seeing it once.
  virtual bool is_idempotent() const { return true; }
  // Whether observe() itself refuses NaN, so that callers need not look for it first.
  virtual bool refuses_nan() const { return false; }
  // Whether state() holds what was learned. False for kinds that learn nothing, and for recording,
  // which keeps whole tensors.
  virtual bool keeps_state() const { return true; }
  virtual ObserverState state() const { return {}; }
  virtual void set_state(const ObserverState&) {}
  // Takes in what another observer of the same kind and arguments has seen, as if this one had seen
  // that data next:
  //   min-max               exactly
  //   moving averages       exactly when the other saw one batch, else within 2^-21 /
  //                         averaging_constant of the largest magnitude (RunningRange)
  //   histogram             same minimum, maximum and total; counts move by less than one bin of
  //                         the result (HistogramObserver)
  //   percentile, mse       as histogram
  //   per_channel_mse, per_channel_percentile  both must have seen the same tensor
  //   recording             the other's tensors are appended
  //   kinds that learn nothing: nothing to do
  // Throws Error("state", ...) when the kinds or arguments differ, or the kind cannot be merged.
  virtual void merge(const Observer& other);
  // Ranges to which the spec's eps would leave less than fewest_steps() get finer scales, down to
  // `least`: one for all, or one per channel.
  virtual void allow_finer_scales(std::vector<float> least) {
    args_.finest_scales = std::move(least);
  }
  const ObserverArgs& args() const { return args_; }
  int64_t quant_min() const { return quant_min_; }  // resolved: the given one or the dtype's
  int64_t quant_max() const { return quant_max_; }

 protected:
  Observer(ObserverArgs args, IntegerRange range)
      : args_(std::move(args)), quant_min_(range.min), quant_max_(range.max) {}
  QParamsTarget target() const;
  float eps() const;
  // Throws Error("state", ...) unless `other` has the same class and the same arguments as far as
  // they decide what is learned.
  void check_mergeable(const Observer& other) const;

  ObserverArgs args_;
  int64_t quant_min_;
  int64_t quant_max_;
};

// By registered name: the kinds that OBSERVERS.md lists. The fake-quants among them
// (fake_quantize.h), fake_quantize and fused_moving_avg_obs_fake_quantize, have the observer inside
// in parentheses when it is not the moving average of the qscheme: "fake_quantize(histogram)".
// Throws Error naming the known ones.
std::shared_ptr<Observer> make_observer(const ObserverArgs& args);
std::vector<std::string> observer_names();

// Which tensors a kind looks at: decides the qscheme of a spec that names none, and whether its
// ch_axis counts.
enum class ObserverScope { kTensor, kChannel, kEither };
using ObserverMaker = std::function<std::shared_ptr<Observer>(const ObserverArgs&)>;
// Makes a kind of your own known by name, for specs and JSON. Throws Error("prepare", ...) when the
// name is taken. Not while other threads make observers.
void register_observer(const std::string& name, ObserverScope scope, ObserverMaker maker);

// The ObserverArgs that a spec asks for: a spec without qscheme gets the affine one of its
// observer's kind, and ch_axis is dropped for observers that look at the whole tensor.
ObserverArgs observer_args(const QuantizationSpec& spec);
std::shared_ptr<Observer> make_observer(const FixedQParamsQuantizationSpec& spec);
// sources: the observers of spec.derived_from, in that order.
std::shared_ptr<Observer> make_observer(const DerivedQuantizationSpec& spec,
                                        std::vector<std::shared_ptr<Observer>> sources);

// Built-in derivations by name: "product_of_scales" (zero point 0; what an int32 bias wants),
// "sum_of_scales" (zero point of the first). Null when unknown.
DeriveQParamsFn find_derive_fn(std::string_view name);

// Derive functions by name: how a DerivedQuantizationSpec gets scale and zero point from other
// observers. find_derive_fn (observer.h) looks here.

// The built-in ones, then those that were registered.
std::vector<std::string> derive_fn_names();

// Makes a function of your own known by name, for specs and JSON ("derive"). Throws
// Error("prepare", ...) when the name is taken or there is no function. Not while other threads
// read specs.
void register_derive_fn(const std::string& name, DeriveQParamsFn derive);

// A spec that applies the function of that name to the edges that it is later given: an int32 bias
// with "product_of_scales" along channels of axis 0. Throws Error("annotate", ...) naming the known
// ones when there is no such function.
DerivedQuantizationSpec derived_by(const std::string& name, DType dtype = DType::kInt32,
                                   std::optional<int> ch_axis = 0);

}  // namespace octet
