// Writes annotations and sharing groups as JSON: everything that a quantizer said about a program
// and, after calibration, the resulting scales.
//
//   {"format": 1,
//    "nodes":  [{"name", "target", "module", "rule", "allow_implicit_sharing", "inputs":
//              [TENSOR...], "output": TENSOR or null}...],
//    "groups": [{"group", "members": ["%x -> %conv", "%y"...], "spec": SPEC, "quant_min",
//              "quant_max", "has_data", "qparams"}...]}
//   TENSOR  {"tensor": "%x -> %conv" or, for an output, "%y", "spec": SPEC, "group": a number, or
//           null without an observer node}
//   SPEC    {"kind", "text", ...}; "text" is to_text of the spec, absent options are null. By kind:
//     quantization  dtype, quant_min, quant_max, qscheme, ch_axis, is_dynamic,
//                   observer: {name, eps, bins, averaging_constant, reduce_range}, for percentile
//                   kinds percentile, for affine kinds granularity, axis or group_size or
//                   block_size, mapping_type, scale_dtype, zero_point_dtype,
//                   has_16_bit_scales, preserve_zero, zero_point_domain
//     shared        same_as: {"edge": "%x -> %conv"} or {"node": "%x"}
//     fixed         fixed: {scale, zero_point}, dtype, quant_min, quant_max, qscheme, is_dynamic
//     derived       derived_from: [{"edge" or "node"}...], derive, dtype, quant_min, quant_max,
//                   qscheme, ch_axis, is_dynamic
//   qparams {"scale": [...], "zero_point": [...], "axis": null: per tensor, "block_size": [...]};
//           null without a scale or without data; {"error": "..."} when the observer refuses
//
// Keys are those of declared quantizers where these have them. Names in bodies of control flow have
// the body's path and a dot in front. One line per node and per group.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/observed/observed_graph.h"
#include "core/graph/graph.h"

namespace octet {

// The annotations before observer nodes are inserted: "has_data" is false, "qparams" null, and
// "quant_min", "quant_max" are the spec's. Throws Error("prepare", ...) as find_sharing_groups
// does.
std::string annotations_to_json(const Graph& graph, const Annotations& annotations);
// The annotations of a prepared graph with the state of its observers. The members of a group are
// the observed tensors.
std::string annotations_to_json(const ObservedGraph& observed);

// The "observer" of a spec in a quantizer's JSON file: without the options that are absent.
std::string to_json(const ObserverChoice& choice);

}  // namespace octet
