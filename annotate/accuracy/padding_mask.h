// Excludes padding tokens from what accuracy passes measure. Nobody uses a model's outputs for
// padding, and the many equal rows would outweigh the words.
//
//   input_ids [1, 128], attention_mask [1, 128] (ones, then zeros)
//       layers' inputs [1, 128, K]: only rows where the mask is 1 count
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Index of the user input with "mask" in its name; nothing when there is none or more than one.
std::optional<size_t> find_padding_mask(const Graph& graph);
// Which rows count, as bool in the input's shape. Undefined, so that all rows count, when there is
// no mask, or when it holds values other than 0 and 1, or no 1.
at::Tensor padding_mask_of(const std::vector<c10::IValue>& batch,
                           const std::optional<size_t>& mask_input);
// The rows of x that count, [rows, K]; x itself when the mask is undefined, or when its shape is
// neither that of x without its last dimension nor that flattened.
at::Tensor rows_that_count(const at::Tensor& x, const at::Tensor& mask);

// Adds the note "STAGE: rows that %NAME masks do not count" when the program has a mask.
void note_padding_mask(const Graph& graph, const std::string& stage, Report& report);

}  // namespace octet
