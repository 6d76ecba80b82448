// Collects the range and the mean square of each channel of activations in one run over the data,
// for smoothing (smooth.h). Padding rows do not count.
#include "annotate/accuracy/smooth.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/minimum.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/stepwise_run.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"

namespace octet {
namespace {

// x as [channels, the rest].
at::Tensor by_channel(const at::Tensor& x, const ChannelDims& dims) {
  std::vector<int64_t> order = dims;
  for (int64_t dim = 0; dim < x.dim(); ++dim)
    if (std::ranges::find(dims, dim) == dims.end()) order.push_back(dim);
  const at::Tensor moved = x.permute(order);
  int64_t channels = 1;
  for (size_t i = 0; i < dims.size(); ++i) channels *= moved.size(static_cast<int64_t>(i));
  return moved.reshape({channels, -1}).to(at::kFloat);
}

void add_batch(ChannelStatistics& known, const at::Tensor& rows) {
  const at::Tensor min = rows.amin(1).to(at::kDouble);
  const at::Tensor max = rows.amax(1).to(at::kDouble);
  const at::Tensor mean_square = rows.square().mean(1).to(at::kDouble);
  known.min = known.batches == 0 ? min : at::minimum(known.min, min);
  known.max = known.batches == 0 ? max : at::maximum(known.max, max);
  known.mean_square = known.batches == 0 ? mean_square
                                         : known.mean_square + (mean_square - known.mean_square) /
                                                                   (known.batches + 1);
  known.batches += 1;
}

// The name of the value before observer nodes.
std::string name_of(const Value* value) { return through_observers(value)->name(); }

// Merges the statistics of all processes, in the order of the spaces. Minima and maxima are float32
// numbers.
void share_statistics(StatisticsMap& statistics, const std::vector<ChannelSpace>& spaces,
                      Peers& peers) {
  std::vector<ChannelStatistics*> all;
  const auto add = [&](const Value* value) {
    const auto found = statistics.find(value);
    if (found != statistics.end() && std::ranges::find(all, &found->second) == all.end())
      all.push_back(&found->second);
  };
  for (const ChannelSpace& space : spaces)
    for (const ScaledOp& taker : space.takers) add(taker.input);
  std::vector<float> ends;
  std::vector<at::Tensor> sums;
  for (ChannelStatistics* each : all) {
    const at::Tensor both = at::cat({each->min, -each->max}).to(at::kFloat);
    ends.insert(ends.end(), both.const_data_ptr<float>(),
                both.const_data_ptr<float>() + both.numel());
    sums.push_back(each->mean_square * each->batches);
    sums.push_back(at::full({1}, each->batches, at::kDouble));
  }
  peers.min(ends);
  sum_over(&peers, sums);
  float* next = ends.data();
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t count = all[i]->min.numel();
    all[i]->min = at::from_blob(next, {count}, at::kFloat).to(at::kDouble);
    all[i]->max = -at::from_blob(next + count, {count}, at::kFloat).to(at::kDouble);
    all[i]->batches = sums[2 * i + 1].item<double>();
    all[i]->mean_square = sums[2 * i] / all[i]->batches;
    next += 2 * count;
  }
}

using Wanted = std::unordered_map<const Value*, const ChannelDims*>;

// Statistics by value over all batches of this process.
StatisticsMap run_over(const ObservedGraph& observed, const Wanted& wanted, const BatchSource& data,
                       const ProgressCallback& progress) {
  StatisticsMap statistics;
  const std::optional<size_t> mask_input = find_padding_mask(observed.graph);
  at::Tensor mask;  // mask of the current batch
  const NodeHook hook = [&](const Node& node, const std::vector<c10::IValue>& results) {
    const std::vector<Value*> outputs = node.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto entry = wanted.find(outputs[i]);
      if (entry == wanted.end()) continue;
      const at::Tensor& x = results.at(i).toTensor();
      const at::Tensor rows =
          *entry->second == ChannelDims{x.dim() - 1} ? rows_that_count(x, mask) : x;
      add_batch(statistics[outputs[i]],
                rows.dim() == x.dim() ? by_channel(rows, *entry->second) : by_channel(rows, {1}));
    }
  };
  Interpreter interpreter = float_interpreter(observed.graph, hook);
  size_t batches = 0;
  while (const std::optional<std::vector<c10::IValue>> batch = data()) {
    mask = padding_mask_of(*batch, mask_input);
    interpreter.run(*batch);
    if (progress) progress(++batches);
  }
  return statistics;
}

std::string key_of(const Value* value, const ChannelDims& dims, const KnownStatistics& known) {
  const auto same = known.same.find(through_observers(value));
  return fmt::format("{} %{} [{}]", known.program,
                     same == known.same.end() ? name_of(value) : same->second,
                     fmt::join(dims, ","));
}

}  // namespace

StatisticsMap collect_channel_statistics(const ObservedGraph& observed,
                                         const std::vector<ChannelSpace>& spaces,
                                         const BatchSource& data, const ProgressCallback& progress,
                                         Peers* peers, const KnownStatistics& known) {
  Wanted wanted;
  for (const ChannelSpace& space : spaces)
    for (const ScaledOp& taker : space.takers) wanted[taker.input] = &space.dims_of(taker.input);
  StatisticsMap remembered;
  if (known.memory != nullptr)
    for (const auto& [value, dims] : wanted)
      if (const auto found = known.memory->find(key_of(value, *dims, known));
          found != known.memory->end())
        remembered.emplace(value, found->second);
  for (const auto& [value, statistics] : remembered) wanted.erase(value);
  if (wanted.empty()) return remembered;
  StatisticsMap statistics = run_over(observed, wanted, data, progress);
  if (peers != nullptr) share_statistics(statistics, spaces, *peers);
  for (const auto& [value, found] : statistics)
    if (!at::isfinite(found.mean_square).all().item<bool>())
      throw Error("smooth", "%" + name_of(value),
                  "got NaN or infinities for the calibration data, want numbers; clean the data or "
                  "check the model");
  if (statistics.empty()) throw Error("smooth", "data", "no batches, got 0, want at least 1");
  if (known.memory != nullptr)
    for (const auto& [value, found] : statistics)
      known.memory->emplace(key_of(value, *wanted.at(value), known), found);
  statistics.merge(remembered);
  return statistics;
}

}  // namespace octet
