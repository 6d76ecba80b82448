// Observer nodes become quantize and dequantize ops; constants behind a quantize op are stored
// quantized.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct ConvertOptions {
  bool fold_quantize = true;  // compute quantize(constant) now and drop the float constant
  // Store buffers that the program reads and writes with the same scale quantized: see
  // mutable_buffers.h. Needs fold_quantize.
  bool fold_quantize_into_mutable_buffers = false;
  // integer arithmetic instead of q/dq: see annotate/reference/representation.h
  bool reference_representation = false;
  // kTorchao: an observer without data gives scale 1 and zero point 0, and a note
  Compat compat = Compat::kNone;
};

// The q/dq graph:
//   static per tensor    quantized_decomposed.{quantize,dequantize}_per_tensor.default, scale and
//                        zero point as literals
//   static per channel   quantized_decomposed.{quantize,dequantize}_per_channel.default, buffers
//                        _scale_N and _zero_point_N
//   dynamic              choose_qparams[_symmetric].tensor, {quantize,dequantize}_per_tensor.tensor
//   affine options       torchao's affine ops (convert_affine.h)
//   float16              two convert_element_type.no_fuse
// Points of other dtypes vanish. Each annotated consumer gets a dequantize of its own. Throws
// Error("convert", ...) when an observer saw no data, for dynamic dtypes other than int8 and uint8,
// and for scales beyond what a backend's constraints allow (check_limits.h). What stayed float goes
// to the report.
Graph convert_pt2e(ObservedGraph observed, const ConvertOptions& options, Report& report);

// Computes each quantize op whose inputs are constants (also behind views, transposes and other ops
// on constants) into a buffer `_frozen_paramN` and drops what nobody reads any more. Returns the
// number of ops replaced.
int fold_quantized_constants(Graph& graph);
// The same for conversions to float16 (torchao keeps the float32 weights).
int fold_float16_constants(Graph& graph);

// Gives each annotated consumer of a dequantize op its own copy (those of choose_qparams.tensor
// excepted, and, unless compat says torchao, those whose memory is written while others read it).
// Returns the number of copies.
int duplicate_dequantize(Graph& graph, const Annotations& annotations, Compat compat);

// Copies module and stack trace: onto a quantize from the node whose output it quantizes, onto a
// dequantize (and the ops of a dynamic one) from its consumer.
void port_qdq_metadata(Graph& graph, const Annotations& annotations);

}  // namespace octet
