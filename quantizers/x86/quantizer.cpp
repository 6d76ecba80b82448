// Matches configurations to matches; the tables are in rules.cpp and compat.cpp.
#include "quantizers/x86/quantizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/graph/constant_products.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/float_ops.h"
#include "core/passes/rewrites.h"
#include "quantizers/common/float_report.h"
#include "quantizers/common/recurrent_rules.h"
#include "quantizers/common/weight_only.h"
#include "quantizers/x86/compat.h"
#include "quantizers/x86/rules.h"

namespace octet {
namespace {

QuantizationSpec x86_weight_spec(const OwnOptions& own) {
  if (has_plain_weights(own)) return plain_weight_spec(own, true, integer_range(DType::kInt8));
  return weight_spec({.bits = own.weight_bits,
                      .is_per_channel = true,
                      .group_size = own.group_size,
                      .search_weight_ranges = own.search_weight_ranges});
}

// Static, dynamic, or float activations (with float16 or integer weights).
enum class Activations { kStatic, kDynamic, kFloat, kWeightOnly };

Activations activations_of(const QuantizationConfig& config) {
  if (!config.input_activation)
    return is_weight_only(config) ? Activations::kWeightOnly : Activations::kFloat;
  return config.input_activation->is_dynamic ? Activations::kDynamic : Activations::kStatic;
}

constexpr const char* kLinearOnly =
    "its configuration is dynamic or of float16 weights, which applies to linear ops only";
constexpr const char* kOptIn = "it is quantized only where its op type or module is named";

// "torch.nn.functional.linear" means the op with all overloads; other names mean themselves.
std::string own_op_key(const std::string& op) {
  const std::optional<std::string> known =
      op.starts_with("torch.") ? find_x86_op(op) : std::nullopt;
  return known ? known->substr(0, known->rfind('.')) : op;
}

// Why `config` conflicts with `other`; empty when it does not.
std::string conflict(const QuantizationConfig& config, const QuantizationConfig& other) {
  if (config.is_qat != other.is_qat) return "mixed configurations of training and calibration";
  if (config.input_activation && other.input_activation &&
      config.input_activation->is_dynamic != other.input_activation->is_dynamic)
    return "mixed dynamic and static configurations";
  return {};
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorOptions& options) {
  IntegerRange range = integer_range(DType::kUInt8);
  if (options.own.activation_bits == 16 && options.reduce_range)
    throw Error("quantizer", "activation_bits",
                "got 16 together with reduce_range, which narrows 8 bits; leave that out");
  if (options.reduce_range) range = reduced_range(options.own, DType::kUInt8, range);
  QuantizationConfig config =
      own_config(options.own, x86_weight_spec(options.own),
                 activation_spec(options.own, DType::kUInt8, range, options.is_dynamic), true);
  return options.is_qat ? to_qat_config(std::move(config), options.own) : config;
}

QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config() {
  QuantizationSpec weight;
  weight.dtype = DType::kFloat16;
  weight.observer_or_fake_quant_ctr.name = "placeholder";
  QuantizationConfig config;
  config.weight = weight;
  return config;
}

std::string X86InductorQuantizer::objection_to(const RowKey& row,
                                               const ConfigTable::Config& config) const {
  if (!config) return {};
  const ConfigTable::Config* replaced = rows().find_row(row);
  for (const auto& [key, other] : rows().all()) {
    if (!*other || (!is_compat() && other == replaced)) continue;
    if (const std::string reason = conflict(*config, **other); !reason.empty()) return reason;
  }
  return {};
}

std::optional<RowKey> X86InductorQuantizer::accept_row(const RowKey& row,
                                                       const ConfigTable::Config& config) {
  RowKey kept = row;
  if (is_compat() && kept.kind == RowKind::kModuleType) kept.kind = RowKind::kOpType;
  const std::string said = describe(kept);
  if (kept.kind == RowKind::kOpType) {
    const std::optional<std::string> known = find_x86_op(row.name);
    if (is_compat() && !known) {
      notes_.push_back(fmt::format("{}: {} is skipped: torchao cannot configure it", name(), said));
      return std::nullopt;
    }
    kept.name = is_compat() ? *known : own_op_key(row.name);
  }
  if (kept.kind == RowKind::kCallIndex) kept.call.op = own_op_key(row.call.op);
  const std::string reason = objection_to(kept, config);
  if (reason.empty()) return kept;
  notes_.push_back(fmt::format("{}: {} is skipped: {} are not supported", name(), said, reason));
  return std::nullopt;
}

void X86InductorQuantizer::transform_for_annotation(Graph& graph) {
  if (is_compat()) return;
  fold_pad(graph);
  constant_products_to_linear(graph);
  remove_dead(graph);
}

void X86InductorQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  if (is_compat())
    annotate_compat(graph, annotations, state, report);
  else
    annotate_own(graph, annotations, state);
  report_float_nodes(graph, annotations, {name(), rows(), {}, state, compute_ops(), {}, true},
                     report);
  for (const std::string& note : notes_) report.note(note);
}

void X86InductorQuantizer::annotate_own(Graph& graph, Annotations& annotations,
                                        RuleState& state) const {
  const QuantizationConfig* global =
      rows().global() && *rows().global() ? &**rows().global() : nullptr;
  ConfigFitter fitter(graph, rows().global());
  const std::unordered_set<const Node*> formulas = find_formula_nodes(graph);
  const std::unordered_set<const Value*> ahead = find_input_free_values(graph);
  // Which configurations a rule table is for.
  using Wants = bool (*)(Activations);
  const Wants is_static = [](Activations kind) { return kind == Activations::kStatic; };
  const Wants is_linear_only = [](Activations kind) {
    return kind == Activations::kDynamic || kind == Activations::kFloat;
  };
  const Wants is_weight_alone = [](Activations kind) { return kind == Activations::kWeightOnly; };
  const auto choose = [&](const AnnotationRule& rule, const Match& match,
                          Wants wants) -> ConfigChoice {
    if (has_norm_outside_of_training(match)) return {};
    // Do not fuse an op whose settings leave it float; a shorter variant takes the rest.
    const ConfigChoice choice = config_of(match);
    if (!choice.config) return choice;
    if (formulas.contains(match.root)) return {nullptr, kPartOfFormula};
    if (ahead.contains(match.root->output_or_null())) return {nullptr, kComputedAhead};
    const Activations kind = activations_of(*choice.config);
    if (!wants(kind))
      return {nullptr, wants != is_static                 ? ""
                       : kind == Activations::kWeightOnly ? kWeightsAlone
                                                          : kLinearOnly};
    if (is_opt_in(rule) && (choice.config == global || kind == Activations::kFloat))
      return {nullptr, kOptIn};
    return {fitter.fit(*choice.config, match), {}};
  };
  const auto run = [&](std::span<const AnnotationRule> rules, Wants wants) {
    return annotate_by_rules(
        graph, rules,
        [&](const AnnotationRule& rule, const Match& match) { return choose(rule, match, wants); },
        annotations, state);
  };
  run(x86_rules(), is_static);
  run(x86_dynamic_rules(), is_linear_only);
  run(weight_only_rules(), is_weight_alone);
  const auto choose_any = [&](const Node& node) -> ConfigChoice {
    return {config_of(node).config, config_of(node).reason};
  };
  annotate_recurrent(graph, choose_any, annotations, state);
  while (run(x86_propagation_rules(), is_static) > 0) continue;
}

void X86InductorQuantizer::annotate_compat(Graph& graph, Annotations& annotations, RuleState& state,
                                           Report& report) const {
  X86CompatAnnotator annotator(graph, annotations, state);
  for (const auto& [name, config] : rows().module_names()) {
    const auto is_inside = [&name](std::span<Node* const> nodes) {
      return std::ranges::all_of(nodes,
                                 [&](const Node* node) { return is_in_module(*node, name); });
    };
    annotator.apply(config, is_inside, fmt::format("module_name \"{}\"", name));
  }
  for (const auto& [op, config] : rows().operator_types()) {
    const auto has_op = [&op](std::span<Node* const> nodes) {
      return std::ranges::count_if(nodes, [&](const Node* node) { return node->target() == op; }) ==
             1;
    };
    annotator.apply(config, has_op, fmt::format("op_type \"{}\"", op));
  }
  if (rows().global() && *rows().global()) {
    const auto has_default_op = [](std::span<Node* const> nodes) {
      const std::span<const std::string> ops = x86_default_ops();
      return std::ranges::count_if(nodes, [&](const Node* node) {
               return std::ranges::find(ops, node->target()) != ops.end();
             }) == 1;
    };
    annotator.apply(*rows().global(), has_default_op, "the global configuration");
  }
  annotator.share_outputs();
  for (const Node* node : graph.nodes()) {
    const auto excluded = annotator.excluded().find(node);
    if (excluded == annotator.excluded().end()) continue;
    report.add({"annotate", node->name(), node->target(), innermost_module(*node),
                fmt::format("excluded by {}", excluded->second)});
  }
}

}  // namespace octet
