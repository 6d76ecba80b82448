// Which configuration goes with which match; the rest is in the tables of rules.cpp and
// compat_rows.cpp.
#include "quantizers/x86/quantizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/passes/fold_pad.h"
#include "core/passes/remove_dead.h"
#include "quantizers/common/config_check.h"
#include "quantizers/common/float_report.h"
#include "quantizers/common/recurrent_rules.h"
#include "quantizers/common/weight_only.h"
#include "quantizers/x86/compat.h"
#include "quantizers/x86/rules.h"
#include "quantizers/xnnpack/rules.h"

namespace octet {

namespace {

// Static activations, dynamic ones, or none (float16 weights; integer ones).
enum class Activations { kStatic, kDynamic, kFloat, kWeightOnly };

Activations activations_of(const QuantizationConfig& config) {
  if (!config.input_activation)
    return is_weight_only(config) ? Activations::kWeightOnly : Activations::kFloat;
  return config.input_activation->is_dynamic ? Activations::kDynamic : Activations::kStatic;
}

constexpr const char* kLinearOnly =
    "its configuration is dynamic or of float16 weights, which takes linear ops only";
constexpr const char* kOptIn = "it is quantized only where its op type or module is named";

const ConfigTable::Config* find_row(const ConfigTable::Rows& rows, const std::string& key) {
  const ConfigTable::Rows::const_iterator found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == key; });
  return found == rows.end() ? nullptr : &found->second;
}

// "torch.nn.functional.linear" means the op in all its overloads; an op that is named as such means
// itself.
std::string own_op_key(const std::string& op) {
  const std::optional<std::string> known =
      op.starts_with("torch.") ? find_x86_op(op) : std::nullopt;
  return known ? known->substr(0, known->rfind('.')) : op;
}

// Why `config` does not go with `other`; empty when it does.
std::string conflict(const QuantizationConfig& config, const QuantizationConfig& other) {
  if (config.is_qat != other.is_qat) return "mixed configurations of training and calibration";
  if (config.input_activation && other.input_activation &&
      config.input_activation->is_dynamic != other.input_activation->is_dynamic)
    return "mixed dynamic and static configurations";
  return {};
}

}  // namespace

bool X86InductorQuantizer::skips(const std::string& row, const ConfigTable::Config& config,
                                 const ConfigTable::Config* replaced) {
  if (!config) return false;
  for (const ConfigTable::Config* other : configs_.all()) {
    if (!*other || (compat_ == Compat::kNone && other == replaced)) continue;
    const std::string reason = conflict(*config, **other);
    if (reason.empty()) continue;
    notes_.push_back(fmt::format("{}: {} is skipped: {} are not supported", name_, row, reason));
    return true;
  }
  return false;
}

X86InductorQuantizer& X86InductorQuantizer::set_global(std::optional<QuantizationConfig> config) {
  if (!skips("the global configuration", config, configs_.global() ? &*configs_.global() : nullptr))
    configs_.set_global(std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_module_name_qconfig(
    const std::string& name, std::optional<QuantizationConfig> config) {
  if (!skips(fmt::format("module_name \"{}\"", name), config,
             find_row(configs_.module_names(), name)))
    configs_.set_module_name(name, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_function_type_qconfig(
    const std::string& op, std::optional<QuantizationConfig> config) {
  const std::optional<std::string> known = find_x86_op(op);
  if (compat_ == Compat::kTorchao && !known) {
    notes_.push_back(
        fmt::format("{}: op_type \"{}\" is skipped: torchao cannot configure it", name_, op));
    return *this;
  }
  const std::string key = compat_ == Compat::kTorchao ? *known : own_op_key(op);
  if (!skips(fmt::format("op_type \"{}\"", op), config, find_row(configs_.operator_types(), key)))
    configs_.set_operator_type(key, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_module_type_qconfig(
    const std::string& type, std::optional<QuantizationConfig> config) {
  if (compat_ == Compat::kTorchao) return set_function_type_qconfig(type, std::move(config));
  if (!skips(fmt::format("module_type \"{}\"", type), config,
             find_row(configs_.module_types(), type)))
    configs_.set_module_type(type, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_module_name_regex(
    const std::string& regex, std::optional<QuantizationConfig> config) {
  refuse_in_compat(compat_, "module_name_regex");
  if (!skips(fmt::format("module_name_regex \"{}\"", regex), config,
             configs_.find_module_regex(regex)))
    configs_.set_module_name_regex(regex, std::move(config));
  return *this;
}

X86InductorQuantizer& X86InductorQuantizer::set_call_index(
    const CallIndex& call, std::optional<QuantizationConfig> config) {
  refuse_in_compat(compat_, "call_index");
  const CallIndex key = {call.module, own_op_key(call.op), call.index};
  if (!skips(describe(call), config, configs_.find_call_index(key)))
    configs_.set_call_index(key, std::move(config));
  return *this;
}

void X86InductorQuantizer::check_model(const Graph& model) const {
  if (compat_ == Compat::kNone) check_rows(configs_, name_, model);
}

void X86InductorQuantizer::transform_for_annotation(Graph& graph) {
  if (compat_ == Compat::kTorchao) return;
  fold_pad(graph);
  remove_dead(graph);
}

void X86InductorQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  if (compat_ == Compat::kTorchao)
    annotate_compat(graph, annotations, state, report);
  else
    annotate_own(graph, annotations, state);
  report_float_nodes(graph, annotations, {name_, configs_, {}, state, compute_ops(), {}, true},
                     report);
  for (const std::string& note : notes_) report.note(note);
}

void X86InductorQuantizer::annotate_own(Graph& graph, Annotations& annotations,
                                        RuleState& state) const {
  const QuantizationConfig* global =
      configs_.global() && *configs_.global() ? &**configs_.global() : nullptr;
  ConfigFitter fitter;
  // Which configurations a table of rules is for.
  using Wants = bool (*)(Activations);
  const Wants is_static = [](Activations kind) { return kind == Activations::kStatic; };
  const Wants is_linear_only = [](Activations kind) {
    return kind == Activations::kDynamic || kind == Activations::kFloat;
  };
  const Wants is_weight_alone = [](Activations kind) { return kind == Activations::kWeightOnly; };
  const auto choose = [&](const AnnotationRule& rule, const Match& match,
                          Wants wants) -> ConfigChoice {
    const ConfigTable::Choice choice = configs_.find(*match.nodes.back());
    if (!choice.config) return {nullptr, choice.reason};
    // An op that its own settings leave float is not fused; the shorter rule takes the rest.
    if (!std::all_of(match.nodes.begin(), match.nodes.end(),
                     [&](const Node* node) { return configs_.find(*node).config; }))
      return {};
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
  const auto choose_training = [&](const AnnotationRule& rule, const Match& match) -> ConfigChoice {
    const ConfigTable::Choice choice = configs_.find(*match.nodes.back());
    // batch norms of other programs are folded, or stay
    if (!choice.config || !choice.config->is_qat) return {};
    return choose(rule, match, is_static);
  };
  annotate_by_rules(graph, x86_batch_norm_rules(), choose_training, annotations, state);
  run(x86_rules(), is_static);
  run(x86_dynamic_rules(), is_linear_only);
  run(weight_only_rules(), is_weight_alone);
  const auto choose_any = [&](const Node& node) -> ConfigChoice {
    return {configs_.find(node).config, configs_.find(node).reason};
  };
  annotate_recurrent(graph, choose_any, annotations, state);
  while (run(x86_propagation_rules(), is_static) > 0) continue;
}

void X86InductorQuantizer::annotate_compat(Graph& graph, Annotations& annotations, RuleState& state,
                                           Report& report) const {
  X86CompatAnnotator annotator(graph, annotations, state);
  for (const auto& [name, config] : configs_.module_names()) {
    const auto is_inside = [&name](std::span<Node* const> nodes) {
      return std::all_of(nodes.begin(), nodes.end(),
                         [&](const Node* node) { return is_in_module(*node, name); });
    };
    annotator.apply(config, is_inside, fmt::format("module_name \"{}\"", name));
  }
  for (const auto& [op, config] : configs_.operator_types()) {
    const auto has_op = [&op](std::span<Node* const> nodes) {
      return std::count_if(nodes.begin(), nodes.end(),
                           [&](const Node* node) { return node->target() == op; }) == 1;
    };
    annotator.apply(config, has_op, fmt::format("op_type \"{}\"", op));
  }
  if (configs_.global() && *configs_.global()) {
    const auto has_default_op = [](std::span<Node* const> nodes) {
      const std::span<const std::string> ops = x86_default_ops();
      return std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) {
               return std::find(ops.begin(), ops.end(), node->target()) != ops.end();
             }) == 1;
    };
    annotator.apply(*configs_.global(), has_default_op, "the global configuration");
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
