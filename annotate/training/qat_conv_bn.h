// Convolutions and batch norms that are trained as what they will be once folded: one convolution
// with a quantized weight.
//
//   y = batch_norm(conv(x, w, b))      becomes, with s = gamma / sqrt(running_var + eps) per output
//       channel,
//   y = batch_norm(conv(x, fake_quant(w * s), 0) / s + b)
//
// The weight that the fake-quant sees is the folded one; the batch norm still learns and still
// keeps its statistics. After training the pair is folded.
#pragma once

#include <string>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_spec.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Between annotation and observer nodes. conv1d/2d/3d (.padding too), conv_transpose1d/2d/3d, and
// linear on matrices, whose result only the batch norm reads; weight and statistics must be data of
// the program. Annotations follow: a spec of the weight is then one of w * s, that of the bias one
// of the zeros, and shared and derived specs that named those edges do too. Of a gamma of 0, for
// which s would be 0, s is 1. Batch norms behind other convolutions are noted in the report with
// the reason. torchao's way it is conv1d, conv2d and their transposed forms without the padding
// overloads; batch norms with gamma and beta; eps 1e-5 and momentum 0.1 whatever the model says,
// always in training mode; ops stand where torchao has them. Returns the number of pairs.
int fuse_conv_bn_qat(Graph& graph, Annotations& annotations, Report& report,
                     Compat compat = Compat::kNone);

// The same function in fewer passes over activations, for the run of a training step: weights are
// divided by s in place of results, as conv(x, v) / s = conv(x, v / s), and b is the convolution's
// where its zeros are not observed. Transposed convolutions with groups stay, and so does torchao's
// form, whose rounding errors are compared with torchao's. Returns the number of pairs that
// changed.
int move_scale_to_weight(Graph& graph);

// The way back, at convert: weight and bias take in the batch norm, which goes, with its statistics
// and the counter of its batches; observers stay. Returns the number of pairs.
int fold_conv_bn_qat(Graph& graph, Compat compat = Compat::kNone);

// What the value is called when the program is calibrated instead, with its batch norms folded: the
// weight for w * s, the convolution's result for that of the batch norm, and other values as they
// are.
std::string name_when_folded(const Value& value);

}  // namespace octet
