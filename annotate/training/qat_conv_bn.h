// Trains convolutions with batch norms in the form that they will have once folded: one convolution
// with a quantized weight (Krishnamoorthi 2018, section 3.2; torchao's prepare_qat_pt2e).
//
//     y = batch_norm(conv(x, w, b))
//   becomes, with s = gamma / sqrt(running_var + eps) per output channel,
//     y = batch_norm(conv(x, fake_quant(w * s), 0) / s + b)
//
// The weight that the fake-quant sees is the folded one, while the batch norm still learns and
// keeps its statistics. After training the pair is folded.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_spec.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Rewrites the pairs; runs after annotation and before observer nodes are inserted. Applies to
// conv1d/2d/3d (also .padding), conv_transpose1d/2d/3d, and linear on matrices, when only the batch
// norm reads the result and weight and statistics are data of the program. Annotations follow: the
// weight's spec moves to w * s, the bias's to the zeros, and shared and derived specs that refer to
// those edges are updated. Where gamma is 0, s is 1 instead of 0. Batch norms after other
// convolutions are reported with the reason.
//
// kTorchao: conv1d, conv2d and their transposed forms without the padding overloads; batch norms
// with gamma and beta; eps 1e-5 and momentum 0.1 whatever the model says, always in training mode;
// ops in torchao's order. Returns the number of pairs.
int fuse_conv_bn_qat(Graph& graph, Annotations& annotations, Report& report,
                     Compat compat = Compat::kNone);

// Computes the same function with fewer passes over activations, to run a training step: divides
// weights by s instead of results, as conv(x, v) / s = conv(x, v / s), and uses b as the
// convolution's bias where its zeros are not observed. Transposed convolutions with groups are not
// changed, nor is torchao's form, whose rounding errors are compared with torchao's. Returns the
// number of pairs changed.
int move_scale_to_weight(Graph& graph);

// Folds the pairs at convert: weight and bias absorb the batch norm, which is removed with its
// statistics and its batch counter; observers stay. Removes the counters of other batch norms in
// evaluation mode too, which torchao keeps. Returns the number of pairs.
int fold_conv_bn_qat(Graph& graph, Compat compat = Compat::kNone);

// The value's name when the program is calibrated instead of trained, with its batch norms folded:
// the weight for w * s, the convolution's result for that of the batch norm; other names are
// unchanged.
std::string name_when_folded(const Value& value);

}  // namespace octet
