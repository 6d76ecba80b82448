#include "annotate/accuracy/snapshot.h"

#include <ATen/ops/equal.h>

#include "annotate/observers/data_free.h"
#include "core/base/error.h"

namespace octet {
namespace {

bool is_changed(const at::Tensor& before, const at::Tensor& now) {
  return now.defined() && !before.is_same(now) && !at::equal(before, now);
}

[[noreturn]] void refuse(const PassOutcome& outcome) {
  throw Error("quantize", outcome.pass,
              "the checkpoint belongs to another program; remove it to start over");
}

}  // namespace

std::vector<LayerSnapshot::Layer> LayerSnapshot::layers_of(const ObservedGraph& observed) {
  Report ignored;
  std::vector<Layer> layers;
  for (const MatrixLayer& layer : find_matrix_layers(observed, "quantize", ignored))
    layers.push_back({weight_of(layer), layer.owns_bias ? bias_of(layer) : at::Tensor()});
  return layers;
}

LayerSnapshot::LayerSnapshot(const ObservedGraph& observed)
    : layers_(layers_of(observed)), observers_(observed.observers) {}

PassOutcome LayerSnapshot::difference(const ObservedGraph& observed) const {
  PassOutcome outcome;
  const std::vector<Layer> now = layers_of(observed);
  for (size_t i = 0; i < now.size(); ++i) {
    if (is_changed(layers_.at(i).weight, now[i].weight))
      outcome.tensors.push_back({i, false, now[i].weight});
    if (is_changed(layers_.at(i).bias, now[i].bias))
      outcome.tensors.push_back({i, true, now[i].bias});
  }
  for (size_t group = 0; group < observers_.size(); ++group) {
    if (observed.observers.at(group) == observers_[group]) continue;
    const ObserverState state = observed.observers[group]->state();
    outcome.ranges.push_back({group, state.min.front(), state.max.front()});
  }
  return outcome;
}

void LayerSnapshot::restore(ObservedGraph& observed) const {
  Report ignored;
  std::vector<MatrixLayer> layers = find_matrix_layers(observed, "quantize", ignored);
  for (size_t i = 0; i < layers_.size(); ++i) {
    set_weight(layers.at(i), layers_[i].weight);
    if (layers_[i].bias.defined()) set_bias(layers[i], layers_[i].bias);
  }
  for (size_t group = 0; group < observers_.size(); ++group)
    replace_observer(observed, group, observers_[group]);
}

void apply(const PassOutcome& outcome, ObservedGraph& observed) {
  Report ignored;
  std::vector<MatrixLayer> layers = find_matrix_layers(observed, "quantize", ignored);
  for (const PassOutcome::NewTensor& tensor : outcome.tensors) {
    if (tensor.layer >= layers.size() || (tensor.is_bias && !layers[tensor.layer].owns_bias))
      refuse(outcome);
    MatrixLayer& layer = layers[tensor.layer];
    const at::Tensor now = tensor.is_bias ? bias_of(layer) : weight_of(layer);
    if (now.sizes() != tensor.value.sizes() || now.scalar_type() != tensor.value.scalar_type())
      refuse(outcome);
    tensor.is_bias ? set_bias(layer, tensor.value) : set_weight(layer, tensor.value);
  }
  for (const PassOutcome::NewRange& range : outcome.ranges) {
    if (range.group >= observed.observers.size()) refuse(outcome);
    replace_observer(observed, range.group,
                     observer_with_range(*observed.observers[range.group], range.min, range.max));
  }
}

std::vector<std::shared_ptr<Observer>> fresh_observers(const ObservedGraph& observed) {
  std::vector<std::shared_ptr<Observer>> fresh;
  for (const std::shared_ptr<Observer>& observer : observed.observers) {
    if (dynamic_cast<const FixedQParamsObserver*>(observer.get()) != nullptr)
      fresh.push_back(observer);
    else if (const auto* derived = dynamic_cast<const DerivedObserver*>(observer.get()))
      fresh.push_back(std::make_shared<DerivedObserver>(*derived));
    else
      fresh.push_back(make_observer(observer->args()));
  }
  for (const std::shared_ptr<Observer>& observer : fresh)
    if (auto* derived = dynamic_cast<DerivedObserver*>(observer.get()))
      for (size_t group = 0; group < fresh.size(); ++group)
        derived->replace_source(observed.observers[group], fresh[group]);
  return fresh;
}

void replace_observer(ObservedGraph& observed, size_t group,
                      const std::shared_ptr<Observer>& observer,
                      const std::function<void(size_t derived_group)>& followed) {
  std::shared_ptr<Observer>& place = observed.observers.at(group);
  if (place == observer) return;
  for (size_t other = 0; other < observed.observers.size(); ++other) {
    auto* derived = dynamic_cast<DerivedObserver*>(observed.observers[other].get());
    if (derived != nullptr && derived->replace_source(place, observer) && followed) followed(other);
  }
  place = observer;
}

std::shared_ptr<Observer> observer_with_range(const Observer& observer, float min, float max) {
  ObserverArgs args = observer.args();
  args.choice.name = "min_max";
  std::shared_ptr<Observer> result = make_observer(args);
  result->set_state({.min = {min}, .max = {max}});
  return result;
}

}  // namespace octet
