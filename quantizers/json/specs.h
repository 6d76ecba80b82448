// Specs in JSON: the cells of annotation rows.
//
//   {"dtype": "int8", "qscheme": "per_channel_symmetric", "ch_axis": 0, "quant_min": -127,
//       "quant_max": 127, "is_dynamic": false,
//    "observer": "min_max" or {"name": "histogram", "eps": 0.00024, "bins": 2048,
//        "averaging_constant": 0.01, "reduce_range": false,
//    "percentile": 99.99}}
//   {"dtype": "int8", "is_dynamic": true, "observer": {"name": "affine_placeholder", "granularity":
//       "per_token", "mapping_type": "asymmetric", ...}}
//   {"fixed": {"scale": 0.00390625, "zero_point": 0}, "dtype": "uint8", "quant_min": 0,
//       "quant_max": 255, "qscheme": "per_tensor_affine"}
//   {"derived_from": ["x", "w"], "derive": "product_of_scales", "dtype": "int32", "qscheme":
//       "per_channel_symmetric", "ch_axis": 0}
//   {"same_as": {"edge": "x"}} or {"same_as": {"node": "x"}}
//   {"all_same": a spec with an observer, by name or in place}
//   {"like_producer": likewise}, of inputs: the observer of the value's producer when an earlier
//       row gave that an output spec, else this spec
//   null: float; "act": what the file's "specs" say under this name
#pragma once

#include <map>
#include <string>

#include "annotate/rules/annotation_rule.h"
#include "quantizers/json/place.h"

namespace octet {

using SpecTable = std::map<std::string, SlotSpec>;

// The file's "specs". Throws Error("quantizer", "file.json: /specs/act/...", ...) for each fault,
// also of a spec that no row uses.
SpecTable specs_at(const Place& place);

// A dtype that specs can have.
DType quantized_dtype_at(const Place& place);

// The name of an observer, or an object of its name and arguments. Throws likewise.
ObserverChoice observer_at(const Place& place);

// One cell. Throws likewise, and for a name that `table` lacks.
SlotSpec cell_at(const Place& place, const SpecTable& table);

}  // namespace octet
