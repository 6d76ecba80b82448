// The arguments of affine observers in JSON.
//
//   "granularity": "per_tensor" | "per_axis" with "axis" | "per_group" with "group_size" |
//       "per_token" | "per_row" | "per_block" with "block_size": [1, 32]
//   "mapping_type": "symmetric" | "symmetric_no_clipping_err" | "asymmetric"
//   "scale_dtype", "zero_point_dtype": dtypes; "preserve_zero": bool; "zero_point_domain": "int" |
//       "float" | "none"
#pragma once

#include <span>

#include "annotate/annotation/quant_spec.h"
#include "quantizers/json/place.h"

namespace octet {

// The keys that affine_at reads.
std::span<const char* const> affine_keys();
// Of an observer's object; keys other than its own are not looked at. Throws Error("quantizer",
// ...) with the place of the fault.
AffineOptions affine_at(const Place& observer);

}  // namespace octet
