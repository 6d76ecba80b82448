#include "annotate/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include <ATen/Functions.h>

#include "annotate/compare/comparer.h"
#include "annotate/compare/shadow_graph.h"
#include "core/base/error.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

using Values = std::vector<c10::IValue>;

constexpr int64_t kBins = 64;
// How far a histogram reaches beyond the range of the rounding, in ranges.
constexpr double kMargin = 0.25;
constexpr int64_t kSpreadSamples = 8;

OpComparison op_of(const ShadowRow& row) {
  OpComparison op;
  op.name = row.twin.subject->name();
  op.members = row.twin.members;
  op.rounding = row.rounding;
  const Node* node = row.twin.subject->producer();
  if (node == nullptr) return op;
  op.target = node->target();
  const std::vector<ModuleFrame> stack = module_stack(*node);
  if (!stack.empty()) {
    op.module = stack.back().path;
    op.module_type = stack.back().type;
  }
  const auto trace = node->metadata.find("stack_trace");
  if (trace != node->metadata.end()) op.stack_trace = trace->second;
  return op;
}

// factors: from the reference's values to the subject's, in whose units the rounding is; undefined:
// 1.
void add_clipping(OpComparison& op, const at::Tensor& reference, const at::Tensor& factors,
                  int64_t seen) {
  const at::Tensor x = factors.defined() ? reference.div(factors) : reference;
  const double least = op.rounding->least(), greatest = op.rounding->greatest();
  // Values within half a step beyond the range are rounded to its end.
  const double half = op.rounding->scale / 2;
  const at::Tensor is_beyond = x.lt(least - half).logical_or(x.gt(greatest + half));
  const int64_t clipped = is_beyond.count_nonzero().item<int64_t>();
  const double all = static_cast<double>(seen + x.numel());
  op.clipped_share =
      all == 0
          ? 0
          : (op.clipped_share * static_cast<double>(seen) + static_cast<double>(clipped)) / all;
  if (clipped == 0) return;
  const at::Tensor lost = x.sub(x.clamp(least, greatest));
  op.clipped_noise +=
      (factors.defined() ? lost.mul(factors) : lost).square().sum(at::kDouble).item<double>();
}

void add_channels(OpComparison& op, const at::Tensor& reference) {
  if (reference.dim() == 0 || reference.numel() == 0) return;
  // [N, C, ...] of images and signals; tokens and rows have their channels last
  const bool is_second = reference.dim() >= 4;
  const int64_t axis = is_second ? 1 : reference.dim() - 1;
  std::vector<int64_t> others;
  for (int64_t dim = 0; dim < reference.dim(); ++dim)
    if (dim != axis) others.push_back(dim);
  const at::Tensor peaks =
      (others.empty() ? reference.abs() : reference.abs().amax(others)).to(at::kFloat).contiguous();
  const float* first = peaks.const_data_ptr<float>();
  if (op.channel_peaks.empty()) op.channel_peaks.resize(static_cast<size_t>(peaks.numel()));
  // Symbolic sizes may differ from batch to batch.
  if (op.channel_peaks.size() != static_cast<size_t>(peaks.numel())) return;
  for (size_t i = 0; i < op.channel_peaks.size(); ++i)
    op.channel_peaks[i] = std::max(op.channel_peaks[i], first[i]);
}

void add_histogram(OpComparison& op, const at::Tensor& reference) {
  Histogram& histogram = op.histogram;
  if (reference.numel() == 0) return;
  if (histogram.counts.empty()) {
    if (op.rounding) {
      const double width = op.rounding->greatest() - op.rounding->least();
      histogram.least = op.rounding->least() - kMargin * width;
      histogram.greatest = op.rounding->greatest() + kMargin * width;
    } else {
      histogram.least = reference.min().item<double>();
      histogram.greatest = reference.max().item<double>();
    }
    if (!(histogram.least < histogram.greatest)) histogram.greatest = histogram.least + 1;
    histogram.counts.assign(kBins, 0);
  }
  if (!std::isfinite(histogram.greatest - histogram.least)) return;
  const double width = (histogram.greatest - histogram.least) / kBins;
  const at::Tensor bins = reference.to(at::kFloat)
                              .sub(histogram.least)
                              .div(width)
                              .nan_to_num(0)
                              .clamp(0, kBins - 1)
                              .to(at::kLong)
                              .flatten();
  const at::Tensor counts = at::bincount(bins, {}, kBins);
  const int64_t* first = counts.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < kBins; ++i) histogram.counts[static_cast<size_t>(i)] += first[i];
}

void take_samples(OpComparison& op, const at::Tensor& reference, const at::Tensor& subject) {
  const int64_t count = reference.numel();
  if (count == 0 || !op.samples.empty() || !reference.sizes().equals(subject.sizes())) return;
  const at::Tensor one = reference.contiguous(), other = subject.to(at::kFloat).contiguous();
  std::set<int64_t> places = {one.sub(other).abs().nan_to_num(0).argmax().item<int64_t>()};
  for (int64_t i = 0; i < std::min(count, kSpreadSamples); ++i)
    places.insert((2 * i + 1) * count / (2 * std::min(count, kSpreadSamples)));
  for (const int64_t place : places) {
    ValueSample sample = {.index = std::vector<int64_t>(static_cast<size_t>(one.dim())),
                          .reference = one.const_data_ptr<float>()[place],
                          .subject = other.const_data_ptr<float>()[place]};
    int64_t rest = place;
    for (int64_t dim = one.dim() - 1; dim >= 0; --dim) {
      sample.index[static_cast<size_t>(dim)] = rest % one.size(dim);
      rest /= one.size(dim);
    }
    op.samples.push_back(std::move(sample));
  }
}

at::Tensor tensor_of(const ChannelFactors& factors) {
  if (factors.shape.empty()) return {};
  at::Tensor tensor = at::empty(factors.shape, at::kFloat);
  float* first = tensor.mutable_data_ptr<float>();
  for (size_t i = 0; i < factors.exponents.size(); ++i)
    first[i] = std::ldexp(1.0F, factors.exponents[i]);
  return tensor;
}

}  // namespace

Comparer::Comparer(const Graph& reference, const Graph& subject, const CompareOptions& options)
    : options_(options) {
  const Twins twins = find_twins(reference, subject);
  for (const Node* node : twins.lonely) comparison_.lonely.push_back(node->name());
  shadow_ = make_shadow_graph(reference, subject, twins);
  outputs_ = add_float_outputs(shadow_, reference, subject);
  for (const ShadowRow& row : shadow_.rows) {
    comparison_.ops.push_back(op_of(row));
    factors_.push_back(tensor_of(row.twin.factors));
  }
  metrics_.resize(comparison_.ops.size());
  const Handler handler = [this](const Node&, const Values& arguments) {
    take(arguments);
    return Values{};
  };
  interpreter_.emplace(
      shadow_.graph, InterpreterOptions{.after_node = {}, .handlers = {{kCompareTarget, handler}}});
}

void Comparer::add(const Values& batch) {
  compare_outputs_of(interpreter_->run(batch));
  ++comparison_.batches;
}

Comparison Comparer::take() && {
  const auto batches = static_cast<double>(comparison_.batches);
  if (options_.metric && comparison_.batches > 0) {
    for (size_t i = 0; i < metrics_.size(); ++i) comparison_.ops[i].metric = metrics_[i] / batches;
    comparison_.metric = metric_of_outputs_ / batches;
  }
  return std::move(comparison_);
}

void Comparer::compare_outputs_of(const Values& values) {
  double sum = 0;
  for (size_t i = 0; i < outputs_; ++i) {
    const at::Tensor &reference = values[i].toTensor(), &subject = values[outputs_ + i].toTensor();
    comparison_.outputs.merge(compare_tensors(reference, subject));
    if (options_.metric) sum += options_.metric(reference.to(at::kFloat), subject.to(at::kFloat));
  }
  metric_of_outputs_ += sum / static_cast<double>(outputs_);
}

void Comparer::take(const Values& arguments) {
  const size_t row = static_cast<size_t>(arguments.at(0).toInt());
  OpComparison& op = comparison_.ops[row];
  const at::Tensor reference = arguments.at(1).toTensor().to(at::kFloat);
  const at::Tensor subject = arguments.at(2).toTensor();
  const int64_t seen = op.accumulated.elements;
  op.accumulated.merge(compare_tensors(reference, subject));
  if (!arguments.at(3).isNone())
    op.isolated.merge(compare_tensors(reference, arguments.at(3).toTensor()));
  if (!arguments.at(4).isNone())
    op.before.merge(compare_tensors(reference, arguments.at(4).toTensor()));
  if (options_.metric) metrics_[row] += options_.metric(reference, subject.to(at::kFloat));
  const at::Tensor& factors = factors_[row];
  if (op.rounding) add_clipping(op, reference, factors, seen);
  const at::Tensor own = factors.defined() ? reference.div(factors) : reference;
  add_channels(op, own);
  if (!options_.values) return;
  add_histogram(op, own);
  take_samples(op, own, factors.defined() ? subject.div(factors) : subject);
}

std::optional<double> OpComparison::steps() const {
  if (!rounding || !isolated.has_data()) return std::nullopt;
  return isolated.largest / rounding->scale;
}

Comparison shadow(const Graph& given_reference, const Graph& given_subject, const BatchSource& data,
                  const CompareOptions& options) {
  const InFloat32 reference(given_reference), subject(given_subject);
  Comparer comparer(reference.graph(), subject.graph(), options);
  std::optional<BodyComparer> bodies;
  if (options.bodies) bodies.emplace(reference.graph(), subject.graph(), options);
  size_t batches = 0;
  while (std::optional<std::vector<c10::IValue>> batch = data()) {
    comparer.add(*batch);
    if (bodies) bodies->add(*batch);
    ++batches;
    if (options.progress) options.progress(batches);
  }
  if (batches == 0)
    throw Error("compare", "the data", "holds no batches; give at least one set of inputs");
  Comparison comparison = std::move(comparer).take();
  if (bodies) {
    comparison.body_weights = bodies->weights();
    std::vector<OpComparison> inner = std::move(*bodies).take();
    comparison.ops.insert(comparison.ops.end(), std::make_move_iterator(inner.begin()),
                          std::make_move_iterator(inner.end()));
  }
  return comparison;
}

}  // namespace octet
