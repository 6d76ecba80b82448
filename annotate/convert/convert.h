// Converts a calibrated graph to a q/dq graph: observer nodes become quantize and dequantize ops,
// and constants that are quantized are stored as integers.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct ConvertOptions {
  bool fold_quantize = true;  // compute quantize(constant) now and drop the float one
  // Store buffers that the program reads and writes with the same scale as integers: see
  // convert_steps.h. Needs fold_quantize.
  bool fold_quantize_into_mutable_buffers = false;
  // write integer arithmetic instead of q/dq: see annotate/reference/representation.h
  bool reference_representation = false;
  // kTorchao: an observer without data gives scale 1 and zero point 0, with a note
  Compat compat = Compat::kNone;
};

// Ops of the q/dq graph:
//   static per tensor    quantized_decomposed.{quantize,dequantize}_per_tensor.default, scale and
//                        zero point as literals
//   static per channel   quantized_decomposed.{quantize,dequantize}_per_channel.default, buffers
//                        _scale_N and _zero_point_N
//   dynamic              choose_qparams[_symmetric].tensor, {quantize,dequantize}_per_tensor.tensor
//   affine options       torchao's affine ops (convert_steps.h)
//   float16              two convert_element_type.no_fuse
// Observer nodes of other dtypes are removed. Each annotated consumer gets its own dequantize op.
// What stayed float is reported. Throws Error("convert", ...) when an observer saw no data, for
// dynamic dtypes other than int8 and uint8, and for scales that violate a backend's constraints
// (check_limits.h).
Graph convert_pt2e(ObservedGraph observed, const ConvertOptions& options, Report& report);

// Computes each quantize op whose inputs are constants (also through views, transposes and other
// ops on constants) into a buffer `_frozen_paramN`, and drops constants without users. Returns the
// number of ops replaced.
int fold_quantized_constants(Graph& graph);
// Computes conversions of constants to float16 in the same way (torchao keeps the float32 weights).
int fold_float16_constants(Graph& graph);

// Gives each annotated consumer of a dequantize op its own copy, except for those of
// choose_qparams.tensor and, unless compat is kTorchao, those whose memory is written while others
// read it. Returns the number of copies.
int duplicate_dequantize(Graph& graph, const Annotations& annotations, Compat compat);

// Copies module and stack trace to the new ops: to a quantize from the node whose output it
// quantizes, to a dequantize (and the ops of a dynamic one) from its consumer.
void port_qdq_metadata(Graph& graph, const Annotations& annotations);

}  // namespace octet
