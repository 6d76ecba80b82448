// Metrics of one's own: by what `octet compare` and `octet tune` judge tensors beside the ratio of
// signal to noise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace octet {

// Of the reference's tensor and the subject's, both float, of one shape and of one batch. Larger is
// nearer; what tune compares with a limit is the mean over batches. NaN: says nothing about such
// tensors. It may throw, which ends the comparison.
using Metric = std::function<double(const at::Tensor& reference, const at::Tensor& subject)>;

// Makes a metric known by name. Throws Error("metric", ...) when the name is empty, no word or
// taken, or when there is no function. Not while other threads compare.
void register_metric(const std::string& name, Metric metric);

// In the order in which they were registered.
std::vector<std::string> metric_names();

// The metric of that name; what it throws comes out as Error("metric", name, ...) with the shape of
// the tensors. Throws Error("metric", name, ...) when there is none.
Metric find_metric(const std::string& name);

}  // namespace octet
