// Prepares a program for calibration or training: inserts observer nodes where a Quantizer wants
// them.
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
  // What to do with a program that was exported in training mode: refuse it, or accept it with a
  // note; its batch norms and dropouts then stay float and in training mode.
  enum class TrainingMode { kError, kOk };
  FoldBn fold_bn = FoldBn::kAuto;
  TrainingMode training_mode = TrainingMode::kError;  // prepare_pt2e only
  ImplicitSharing implicit_sharing = ImplicitSharing::kOn;
  // kTorchao: also folds batch norms when others see the convolution's output, and accepts programs
  // in training mode
  Compat compat = Compat::kNone;
};

// Folds batch norms, lets the quantizer transform, annotate and validate, finds the sharing groups,
// asks the quantizer about their observers (prepare_obs_or_fq_callback) and inserts observer nodes.
// Does the same in each body of control flow that is quantized (annotate/graph/control_flow.h), and
// works around the quantizer's opaque parts (annotate/graph/opaque_parts.h). Unless compat is
// kTorchao, constants move into the bodies until convert. Annotated edges of tensors that are not
// floating point are reported and skipped. Throws Error("prepare", ...) as check_spec,
// find_sharing_groups and make_observer do, and for programs with ops in training mode
// (find_training_ops, core/passes/set_training.h).
ObservedGraph prepare_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                           const PrepareOptions& options = {});

// Only the steps after annotation, for callers that annotate by other means.
ObservedGraph insert_observers(Graph graph, Annotations annotations, Report& report,
                               const PrepareOptions& options = {});

// Prepares a program for quantization-aware training: as prepare_pt2e, for quantizers whose specs
// ask for fake-quants (annotate/observers/fake_quantize.h); plain observers are allowed beside
// them. Batch norms after convolutions are not folded but trained in the folded form
// (qat_conv_bn.h), unless options.fold_bn is kOff. Fixed scales are fake-quantized too. Bodies of
// control flow stay float. Ops in training mode are expected. Train the result through QatModel
// (qat_model.h) and convert it as usual.
ObservedGraph prepare_qat_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                               const PrepareOptions& options = {});

}  // namespace octet
