// Second-order rounding: the method of optimal brain surgeon for quantization (GPTQ). Columns are
// rounded one after the other, those with the most energy first; what each column's rounding does
// to the output is made up for by the columns that are still free, as the inverse Hessian says.
// Then single weights move by a step as long as that lowers the error.
#pragma once

#include "annotate/accuracy/weight_rounding.h"

namespace octet {

struct SecondOrderOptions {
  // rounded before the error reaches the other columns: speed only; >= 1
  int64_t block_columns = 128;
  int passes = 20;  // over all columns when single weights move; 0: none
};

// Deterministic. Throws Error("second-order rounding", option, ...) for bad options.
RoundingMethod second_order_method(const SecondOrderOptions& options = {});

// round_weights() by that method.
std::vector<LayerRounding> round_second_order(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const RoundingOptions& options = {},
                                              const SecondOrderOptions& method = {});

}  // namespace octet
