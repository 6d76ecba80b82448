#include "annotate/prepare/prepare.h"

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "annotate/observed/scale_floor.h"
#include "annotate/prepare/observer_insertion.h"
#include "annotate/prepare/opaque_prepare.h"
#include "annotate/prepare/quantizer_calls.h"
#include "annotate/training/qat_conv_bn.h"
#include "core/base/error.h"
#include "core/graph/origin.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/pass.h"
#include "core/passes/rewrites.h"
#include "core/passes/set_training.h"
#include "core/passes/verify.h"

namespace octet {
namespace {

bool is_torchao(const PrepareOptions& options) { return options.compat == Compat::kTorchao; }

// Calibration would see random values, and batch norms would neither fold nor be quantized.
void check_training_mode(const Graph& graph, Report& report, const PrepareOptions& options) {
  const std::vector<const Node*> ops = find_training_ops(graph);
  if (ops.empty()) return;
  const Node& first = *ops.front();
  const std::string found =
      ops.size() == 1 ? fmt::format("it ({}) is an op", first.target())
                      : fmt::format("it ({}) is the first of {} ops", first.target(), ops.size());
  if (options.training_mode == PrepareOptions::TrainingMode::kOk || is_torchao(options)) {
    report.note(fmt::format("prepare: %{}: {} in training mode; these stay float and in that mode",
                            first.name(), found));
    return;
  }
  throw Error("prepare", "%" + first.name(),
              fmt::format("{} in training mode, want a program in evaluation mode; call "
                          "model.eval() before torch.export.export, or allow it with "
                          "--training-mode ok",
                          found));
}

// Transforms a graph, or the part of it that a quantizer sees, before annotation.
void transform(Graph& graph, Quantizer& quantizer, bool folds_bn, const PrepareOptions& options) {
  run_passes(
      "prepare", graph,
      {
          {"fold_conv_bn",
           [&] { return fold_conv_bn(graph, {.check_users = !is_torchao(options)}); }, folds_bn},
          {"transform_for_annotation", [&] { transform_by(quantizer, graph, options.compat); }},
      });
}

OpaquePrepare::Work work_with(bool folds_bn, const PrepareOptions& options) {
  return {
      .transform = [=](Graph& graph,
                       Quantizer& quantizer) { transform(graph, quantizer, folds_bn, options); },
      .annotate = [](Graph& graph, Quantizer& quantizer, Annotations& annotations,
                     Report& report) { annotate_by(quantizer, graph, annotations, report); }};
}

// Gives bodies their constants and modules.
void give_bodies_their_own(Graph& graph) {
  move_constants_into_bodies(graph);
  for (const Body& body : bodies_within(graph)) inherit_module(body);
}

// torchao quantizes nothing in such programs.
bool widens(const Graph& graph, const PrepareOptions& options) {
  return !is_torchao(options) && computes_in_half(graph);
}

void widen(Graph& graph, Report& report) {
  widen_half(graph);
  report.note(
      "prepare: the program computes in bfloat16 or float16: it is observed, and what stays "
      "float is computed, in float32; its inputs and outputs keep their dtypes");
}

// The program and the bodies in it.
void annotate_program(ObservedGraph& observed, OpaquePrepare& quantizers, Report& report,
                      const PrepareOptions& options) {
  quantizers.check(observed.graph, report);
  quantizers.annotate(observed.graph, observed.annotations, report);
  for (const Body& body : bodies_within(observed.graph, options.compat))
    if (body.reason.empty())
      report_on_body(body, report, [&](Report& own) {
        quantizers.annotate_body(body, observed.annotations, own);
      });
  report_float_bodies(observed.graph, options.compat, report);
  verify(observed.graph);
}

// Only the program, without bodies.
void annotate_for_training(ObservedGraph& observed, OpaquePrepare& quantizers, Report& report) {
  quantizers.check(observed.graph, report);
  quantizers.annotate(observed.graph, observed.annotations, report);
  for (const Body& body : bodies_within(observed.graph))
    report.note(
        fmt::format("prepare: the body {} of %{} stays float: control flow is not trained with "
                    "fake quantization",
                    body.path, body.call->name()));
}

// Inserts observer nodes into one graph: the program or a body. `quantizers` may be null.
void observe_graph(Graph& graph, ObservedGraph& observed, const OpaquePrepare* quantizers,
                   Report& report, const PrepareOptions& options,
                   Purpose purpose = Purpose::kCalibration) {
  PartOf part_of;
  if (quantizers != nullptr && quantizers->has_quantized_parts())
    part_of = [&](const EdgeOrNode& key) { return quantizers->part_of(key); };
  SharingGroups groups =
      find_sharing_groups(graph, observed.annotations, options.implicit_sharing, part_of);
  std::vector<std::shared_ptr<Observer>> observers =
      make_group_observers(groups, purpose, options.compat);
  if (quantizers != nullptr) ask_for_observers(*quantizers, graph, groups, observers);
  if (purpose == Purpose::kCalibration && !is_torchao(options))
    lower_scale_floors(graph, observed.annotations, groups, observers);
  insert_observer_nodes(graph, observed.annotations, groups, observed.observers.size(), report,
                        is_torchao(options) ? BufferWrites::kIgnored : BufferWrites::kWatched);
  observed.observers.insert(observed.observers.end(), observers.begin(), observers.end());
}

// The program and the bodies in it.
void observe_program(ObservedGraph& observed, const OpaquePrepare* quantizers, Report& report,
                     const PrepareOptions& options) {
  observe_graph(observed.graph, observed, quantizers, report, options);
  for (const Body& body : bodies_within(observed.graph, options.compat))
    if (body.reason.empty())
      report_on_body(body, report, [&](Report& own) {
        observe_graph(*body.graph, observed, quantizers, own, options);
      });
}

}  // namespace

ObservedGraph prepare_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                           const PrepareOptions& options) {
  const bool folds_bn = options.fold_bn == PrepareOptions::FoldBn::kAuto;
  check_training_mode(graph, report, options);
  OpaquePrepare quantizers(quantizer, work_with(folds_bn, options));
  ObservedGraph observed{std::move(graph), {}, {}};
  const bool is_widened = widens(observed.graph, options);
  run_passes(
      "prepare", observed.graph,
      {
          {"widen_half", [&] { widen(observed.graph, report); }, is_widened},
          {"set_origins", [&] { set_origins(observed.graph); }},
          {"move_constants_into_bodies", [&] { give_bodies_their_own(observed.graph); },
           !is_torchao(options)},
          {"annotate", [&] { annotate_program(observed, quantizers, report, options); }},
          {"insert_observers", [&] { observe_program(observed, &quantizers, report, options); }},
      });
  observed.islands = quantizers.take_islands();
  return observed;
}

ObservedGraph prepare_qat_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                               const PrepareOptions& options) {
  const bool fuses_bn = options.fold_bn == PrepareOptions::FoldBn::kAuto;
  OpaquePrepare quantizers(quantizer, work_with(/*folds_bn=*/false, options));
  ObservedGraph observed{std::move(graph), {}, {}};
  const bool is_widened = widens(observed.graph, options);
  run_passes("prepare", observed.graph,
             {
                 {"widen_half", [&] { widen(observed.graph, report); }, is_widened},
                 {"set_origins", [&] { set_origins(observed.graph); }},
                 {"annotate", [&] { annotate_for_training(observed, quantizers, report); }},
                 {"fuse_conv_bn_qat",
                  [&] {
                    return fuse_conv_bn_qat(observed.graph, observed.annotations, report,
                                            options.compat);
                  },
                  fuses_bn},
                 {"insert_observers",
                  [&] {
                    verify(observed.graph);
                    observe_graph(observed.graph, observed, &quantizers, report, options,
                                  Purpose::kTraining);
                  }},
             });
  observed.islands = quantizers.take_islands();
  return observed;
}

ObservedGraph insert_observers(Graph graph, Annotations annotations, Report& report,
                               const PrepareOptions& options) {
  ObservedGraph observed{std::move(graph), {}, std::move(annotations)};
  run_passes("prepare", observed.graph,
             {
                 {"insert_observers", [&] { observe_program(observed, nullptr, report, options); }},
             });
  return observed;
}

}  // namespace octet
