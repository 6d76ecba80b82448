// Which rows of sentences are padding: passes that read calibration data leave them out, as what a
// model gives there is nobody's result, and the many equal rows would count for more than the words
// do.
//
//   input_ids [1, 128], attention_mask [1, 128] (ones, then zeros)
//       layers' inputs [1, 128, K]: only rows where the mask is 1 count
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Index of the one user input that has "mask" in its name; none where there are several or no such
// inputs.
std::optional<size_t> find_padding_mask(const Graph& graph);
// Which rows count, bool in the input's shape. Undefined: all of them, as there is no mask, or it
// holds something else than zeros and ones, or no one.
at::Tensor padding_mask_of(const std::vector<c10::IValue>& batch,
                           const std::optional<size_t>& mask_input);
// The rows of x (along its last dimension) that count, [rows, K]; x itself where the mask is
// undefined or is not of the shape of x without its last dimension (or of that flattened).
at::Tensor rows_that_count(const at::Tensor& x, const at::Tensor& mask);

// One note: "STAGE: rows that %NAME masks do not count". Nothing without a mask.
void note_padding_mask(const Graph& graph, const std::string& stage, Report& report);

}  // namespace octet
