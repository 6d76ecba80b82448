// Observers compute scale and zero point from the values that they see. There is one class per kind
// and one instance per sharing group. The arithmetic is that of torchao's
// quantization/pt2e/observer.py, bit for bit where float order allows. Also here: the registries of
// observers and of derive functions.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/annotation/qparams.h"
#include "annotate/annotation/quant_spec.h"

namespace octet {

// What every observer knows about the tensor that it observes.
struct ObserverArgs {
  DType dtype = DType::kInt8;
  QScheme qscheme = QScheme::kPerTensorAffine;
  std::optional<int64_t> quant_min;
  std::optional<int64_t> quant_max;
  std::optional<int> ch_axis;
  bool is_dynamic = false;
  bool reduce_range = false;
  ObserverChoice choice;
  // see QParamsTarget::finest; set by prepare and convert (annotate/observed/scale_floor.h)
  std::vector<float> finest_scales = {};
};

// Everything that an observer has learned, for saving. Vectors are empty before the first data, or
// when this kind does not keep them.
struct ObserverState {
  std::vector<float> min = {};
  std::vector<float> max = {};
  std::vector<float> histogram = {};
  // number of batches observed, for kinds that average; 0 when not kept
  int64_t batches = 0;
  // range of the first batch alone, for kinds that average: needed to merge
  std::vector<float> first_min = {};
  std::vector<float> first_max = {};
  bool operator==(const ObserverState&) const = default;
};

// The part of a tensor that a kind of observer uses; it determines how parts of a batch are
// combined.
enum class Sees {
  kNothing,      // or each row separately
  kEnds,         // minimum and maximum
  kChannelEnds,  // minimum and maximum per index of ch_axis (default 0)
  kAll
};

class Observer {
 public:
  // Resolves the quant range; throws Error("prepare", ...) when the arguments contradict each
  // other.
  explicit Observer(ObserverArgs args);
  virtual ~Observer() = default;
  // Observes one batch. Throws Error("calibrate", "", ...) on NaN; calibrate() adds the subject.
  virtual void observe(const at::Tensor& x) = 0;
  // Observes x and returns what the observer node returns: x itself, or, for fake-quants, x
  // quantized and dequantized.
  virtual at::Tensor forward(const at::Tensor& x) {
    observe(x);
    return x;
  }
  // forward() for x that is a part of a batch. `ends` holds the extremes of the whole batch, as
  // sees() requires, and is observed; undefined: nothing is observed. share: of the batch's
  // elements that are in x, in (0, 1].
  virtual at::Tensor forward_part(const at::Tensor& x, const at::Tensor& ends, double share);
  virtual Sees sees() const { return Sees::kAll; }
  // Whether forward() currently observes.
  virtual bool observes() const { return true; }
  // Throws Error("convert", ...) when nothing was observed and the kind needs data.
  virtual QParams calculate_qparams() const = 0;
  virtual bool has_data() const = 0;
  // Whether observing the same tensor twice in a row gives the same state as observing it once.
  virtual bool is_idempotent() const { return true; }
  // Whether observe() itself refuses NaN, so that callers need not check.
  virtual bool refuses_nan() const { return false; }
  // Whether state() holds everything that was learned. False for kinds that learn nothing, and for
  // recording, which keeps whole tensors.
  virtual bool keeps_state() const { return true; }
  virtual ObserverState state() const { return {}; }
  virtual void set_state(const ObserverState&) {}
  // Merges what another observer of the same kind and arguments has seen, as if this one had seen
  // that data next:
  //   min-max               exactly
  //   moving averages       exactly when the other saw one batch, else within 2^-21 /
  //                         averaging_constant of the largest magnitude (RunningRange)
  //   histogram             same minimum, maximum and total; counts move by less than one bin of
  //                         the result (HistogramObserver)
  //   percentile, mse       as histogram
  //   weight_mse, per_channel_mse, per_channel_percentile  both must have seen the same tensor
  //   recording             the other's tensors are appended
  //   kinds that learn nothing: nothing to do
  // Throws Error("state", ...) when the kinds or arguments differ, or the kind cannot be merged.
  virtual void merge(const Observer& other);
  // Allows finer scales, down to `least` (one, or one per channel), for ranges to which the spec's
  // eps would leave fewer than fewest_steps().
  virtual void allow_finer_scales(std::vector<float> least) {
    args_.finest_scales = std::move(least);
  }
  const ObserverArgs& args() const { return args_; }
  int64_t quant_min() const { return quant_min_; }  // the given one or the dtype's
  int64_t quant_max() const { return quant_max_; }

 protected:
  Observer(ObserverArgs args, IntegerRange range)
      : args_(std::move(args)), quant_min_(range.min), quant_max_(range.max) {}
  QParamsTarget target() const;
  float eps() const;
  // Throws Error("state", ...) unless `other` has the same class and the same arguments, as far as
  // they determine what is learned.
  void check_mergeable(const Observer& other) const;

  ObserverArgs args_;
  int64_t quant_min_;
  int64_t quant_max_;
};

// Creates an observer by registered name: the kinds that OBSERVERS.md lists. Names of fake-quants
// (fake_quantize.h) have the observer inside in parentheses when it is not the moving average of
// the qscheme: "fake_quantize(histogram)". Throws Error, which lists the known names.
std::shared_ptr<Observer> make_observer(const ObserverArgs& args);
std::vector<std::string> observer_names();

// Which tensors a kind observes: determines the qscheme of a spec without one, and whether its
// ch_axis matters.
enum class ObserverScope { kTensor, kChannel, kEither };
using ObserverMaker = std::function<std::shared_ptr<Observer>(const ObserverArgs&)>;
// Registers an observer for specs and JSON. Throws Error("prepare", ...) when the name is taken.
// Not thread-safe with running make_observer().
void register_observer(const std::string& name, ObserverScope scope, ObserverMaker maker);

// The arguments of a spec's observer. A spec without qscheme gets the affine one of its observer's
// kind, and ch_axis is dropped for observers of whole tensors.
ObserverArgs observer_args(const QuantizationSpec& spec);
std::shared_ptr<Observer> make_observer(const FixedQParamsQuantizationSpec& spec);
// sources: the observers of spec.derived_from, in that order.
std::shared_ptr<Observer> make_observer(const DerivedQuantizationSpec& spec,
                                        std::vector<std::shared_ptr<Observer>> sources);

// Finds a derive function, which computes scale and zero point from those of other observers:
// "product_of_scales" (zero point 0; for int32 biases), "sum_of_scales" (zero point of the first),
// or a registered one. Null when unknown.
DeriveQParamsFn find_derive_fn(std::string_view name);

// The built-in ones, then those that were registered.
std::vector<std::string> derive_fn_names();

// Registers a derive function for specs and JSON ("derive"). Throws Error("prepare", ...) when the
// name is taken or the function is empty. Not thread-safe with code that reads specs.
void register_derive_fn(const std::string& name, DeriveQParamsFn derive);

// A spec that applies the function of that name to the edges that it is given later: for an int32
// bias "product_of_scales" along channel axis 0. Throws Error("annotate", ...), which lists the
// known functions, when there is none of that name.
DerivedQuantizationSpec derived_by(const std::string& name, DType dtype = DType::kInt32,
                                   std::optional<int> ch_axis = 0);

}  // namespace octet
