// Measures the error of a tensor against a reference: squared errors summed over batches, and
// metrics that programs register.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/compare/error_stats.h"

namespace octet {

// For any real dtypes, broadcast to a common shape. Throws Error("compare", ...) when that is
// impossible.
ErrorStats compare_tensors(const at::Tensor& reference, const at::Tensor& subject);

// A custom metric, by which `octet compare` and `octet tune` judge tensors in addition to the
// signal-to-noise ratio. Gets float tensors of one shape, from one batch. Larger is closer; tune
// compares the mean over batches with a limit. NaN: the metric does not apply to such tensors. It
// may throw, which ends the comparison.
using Metric = std::function<double(const at::Tensor& reference, const at::Tensor& subject)>;

// Registers a metric. Throws Error("metric", ...) when the name is empty, not a word or taken, or
// when the function is empty. Not thread-safe with running comparisons.
void register_metric(const std::string& name, Metric metric);

// In the order of registration.
std::vector<std::string> metric_names();

// The metric of that name. What it throws is rethrown as Error("metric", name, ...) with the shape
// of the tensors. Throws Error("metric", name, ...) when there is none.
Metric find_metric(const std::string& name);

}  // namespace octet
