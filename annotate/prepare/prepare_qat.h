// Prepares a program for training with fake quantization.
#pragma once

#include "annotate/prepare/prepare.h"

namespace octet {

// As prepare_pt2e, for quantizers whose specs ask for fake-quants
// (annotate/observers/fake_quantize.h); specs with plain observers are allowed beside them. Batch
// norms are not folded: behind convolutions they are trained in the folded form (qat_conv_bn.h),
// unless options.fold_bn is kOff. Fixed scales are fake-quantized too. Bodies of control flow stay
// float. Ops in training mode are what it expects. The result is trained through QatModel
// (qat_model.h) and converted as always.
ObservedGraph prepare_qat_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                               const PrepareOptions& options = {});

}  // namespace octet
