#include "annotate/accuracy/padding_mask.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

namespace octet {

std::optional<size_t> find_padding_mask(const Graph& graph) {
  const std::vector<Value*> inputs = graph.user_inputs();
  std::optional<size_t> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->name().find("mask") == std::string::npos) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

at::Tensor padding_mask_of(const std::vector<c10::IValue>& batch,
                           const std::optional<size_t>& mask_input) {
  if (!mask_input || *mask_input >= batch.size() || !batch[*mask_input].isTensor()) return {};
  const at::Tensor& mask = batch[*mask_input].toTensor();
  const at::Tensor ones = mask == 1;
  const bool is_mask =
      mask.dim() > 0 && ones.logical_or(mask == 0).all().item<bool>() && ones.any().item<bool>();
  return is_mask ? ones : at::Tensor();
}

at::Tensor rows_that_count(const at::Tensor& x, const at::Tensor& mask) {
  if (!mask.defined() || x.dim() < 2) return x;
  const bool is_shape = x.sizes().slice(0, static_cast<size_t>(x.dim()) - 1) == mask.sizes();
  const bool is_flat = x.dim() == 2 && x.size(0) == mask.numel();
  if (!is_shape && !is_flat) return x;
  return x.reshape({-1, x.size(-1)}).index_select(0, mask.reshape({-1}).nonzero().reshape({-1}));
}

void note_padding_mask(const Graph& graph, const std::string& stage, Report& report) {
  if (const std::optional<size_t> input = find_padding_mask(graph))
    report.note(fmt::format("{}: rows that %{} masks do not count", stage,
                            graph.user_inputs().at(*input)->name()));
}

}  // namespace octet
