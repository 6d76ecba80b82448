// Puts observer nodes into a graph where a Quantizer wants them.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/annotation/sharing.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct PrepareOptions {
  enum class FoldBn { kAuto, kOff };
  // What becomes of a program that was exported in training mode: refused, or taken as it is, with
  // a note: its batch norms and dropouts stay float and go on as in training.
  enum class TrainingMode { kError, kOk };
  FoldBn fold_bn = FoldBn::kAuto;
  TrainingMode training_mode = TrainingMode::kError;  // of prepare_pt2e alone
  ImplicitSharing implicit_sharing = ImplicitSharing::kOn;
  // kTorchao: also folds batch norms where others see the convolution's output, and takes programs
  // in training mode
  Compat compat = Compat::kNone;
};

// Folds batch norms, lets the quantizer transform, annotate and validate, finds the sharing groups,
// asks the quantizer about their observers (prepare_obs_or_fq_callback) and inserts the observer
// nodes; the same in each body of control flow that is quantized (annotate/graph/control_flow.h).
// Works around the quantizer's opaque parts (annotate/graph/opaque_parts.h). Unless compat says
// torchao, constants move into the bodies, until convert. Annotated edges of tensors that are not
// floating point are reported and left alone. Throws Error("prepare", ...) as check_spec,
// find_sharing_groups and make_observer do, and for programs with ops in training mode
// (find_training_ops, core/passes/set_training.h).
ObservedGraph prepare_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                           const PrepareOptions& options = {});

// The steps after annotation alone, for callers that annotated by other means.
ObservedGraph insert_observers(Graph graph, Annotations annotations, Report& report,
                               const PrepareOptions& options = {});

// Prepares a program for training with fake quantization.

// As prepare_pt2e, for quantizers whose specs ask for fake-quants
// (annotate/observers/fake_quantize.h); specs with plain observers are allowed beside them. Batch
// norms are not folded: behind convolutions they are trained in the folded form (qat_conv_bn.h),
// unless options.fold_bn is kOff. Fixed scales are fake-quantized too. Bodies of control flow stay
// float. Ops in training mode are what it expects. The result is trained through QatModel
// (qat_model.h) and converted as always.
ObservedGraph prepare_qat_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                               const PrepareOptions& options = {});

}  // namespace octet
