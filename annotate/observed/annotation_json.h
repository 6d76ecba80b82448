// Annotations and sharing groups as JSON: all that a quantizer said about a program, and after
// calibration what became of it.
//
//   {"format": 1,
//    "nodes":  [{"name", "target", "module", "rule", "allow_implicit_sharing", "inputs":
//              [TENSOR...], "output": TENSOR or null}...],
//    "groups": [{"group", "members": ["%x -> %conv", "%y"...], "spec": SPEC, "quant_min",
//        "quant_max", "has_data", "qparams"}...]}
//   TENSOR  {"tensor": "%x -> %conv", or "%y" of an output, "spec": SPEC, "group": a number, or
//           null where no observer node was put}
//   SPEC    {"kind", "text", ...}; "text" is to_text of the spec, absent options are null. By kind:
//     quantization  dtype, quant_min, quant_max, qscheme, ch_axis, is_dynamic,
//                   observer: {name, eps, bins, averaging_constant, reduce_range}, of percentile
//                       kinds percentile, of affine kinds granularity,
//                   axis or group_size or block_size, mapping_type, scale_dtype, zero_point_dtype,
//                       preserve_zero, zero_point_domain
//     shared        same_as: {"edge": "%x -> %conv"} or {"node": "%x"}
//     fixed         fixed: {scale, zero_point}, dtype, quant_min, quant_max, qscheme, is_dynamic
//     derived       derived_from: [{"edge" or "node"}...], derive, dtype, quant_min, quant_max,
//                   qscheme, ch_axis, is_dynamic
//   qparams {"scale": [...], "zero_point": [...], "axis": null: per tensor, "block_size": [...]};
//       null for what has no scale of its own or saw no
//           data; {"error": "..."} where the observer refuses.
// Keys are those of declared quantizers where they have them. Names within bodies of control flow
// stand behind the body's path and a dot. One line for each node and each group.
#pragma once

#include <string>

#include "annotate/annotation/annotation.h"
#include "annotate/observed/observed_graph.h"
#include "core/graph/graph.h"

namespace octet {

// What the quantizer said, before observer nodes are put in: "has_data" is false, "qparams"
// null, and "quant_min", "quant_max" are the spec's. Throws Error("prepare", ...) as
// find_sharing_groups does.
std::string annotations_to_json(const Graph& graph, const Annotations& annotations);
// What prepare made of it and what the observers know. The members of a group are the tensors that
// are observed.
std::string annotations_to_json(const ObservedGraph& observed);

}  // namespace octet
