// Reads specs from JSON: the inputs and outputs of annotation rows.
//
//   {"dtype": "int8", "qscheme": "per_channel_symmetric", "ch_axis": 0,
//    "quant_min": -127, "quant_max": 127, "is_dynamic": false,
//    "observer": "min_max" or
//                {"name": "histogram", "eps": 0.00024, "bins": 2048, "averaging_constant": 0.01,
//                 "reduce_range": false, "percentile": 99.99}}
//   {"dtype": "int8", "is_dynamic": true,
//    "observer": {"name": "affine_placeholder", "granularity": "per_token",
//                 "mapping_type": "asymmetric", ...}}
//   {"fixed": {"scale": 0.00390625, "zero_point": 0}, "dtype": "uint8",
//    "quant_min": 0, "quant_max": 255, "qscheme": "per_tensor_affine"}
//   {"derived_from": ["x", "w"], "derive": "product_of_scales", "dtype": "int32",
//    "qscheme": "per_channel_symmetric", "ch_axis": 0}
//   {"same_as": {"edge": "x"}} or {"same_as": {"node": "x"}}
//   {"all_same": a spec with an observer, by name or in place}
//   {"like_producer": as all_same}, for inputs: the observer of the value's producer if an earlier
//       row gave it an output spec, else this spec
//   null: float; "act": the spec of this name in the file's "specs"
#pragma once

#include <map>
#include <string>

#include "annotate/rules/annotation_rule.h"
#include "quantizers/json/place.h"

namespace octet {

using SpecTable = std::map<std::string, SlotSpec>;

// Reads the file's "specs". Throws Error("quantizer", "file.json: /specs/act/...", ...) for each
// mistake, even in a spec that no row uses.
SpecTable specs_at(const Place& place);

// A dtype that specs can have.
DType quantized_dtype_at(const Place& place);

// Reads an observer: its name, or an object of its name and arguments. Throws as specs_at.
ObserverChoice observer_at(const Place& place);

// Reads the spec of one input or output. Throws as specs_at, and for a name that `table` lacks.
SlotSpec cell_at(const Place& place, const SpecTable& table);

}  // namespace octet
