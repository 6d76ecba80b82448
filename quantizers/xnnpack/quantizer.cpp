// Matches configs to matches; the tables are in rules.cpp.
#include "quantizers/xnnpack/quantizer.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "annotate/graph/constant_products.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/float_ops.h"
#include "core/base/error.h"
#include "core/passes/rewrites.h"
#include "quantizers/common/float_report.h"
#include "quantizers/common/recurrent_rules.h"
#include "quantizers/common/weight_only.h"
#include "quantizers/xnnpack/rules.h"

namespace octet {
namespace {

void check_range(const char* what, int64_t min, int64_t max) {
  if (min > 0 || max < 0 || min >= max || min < -128 || max > 127)
    throw Error(
        "quantizer", what,
        fmt::format("not a range within -128 .. 127 that contains 0, got {} .. {}", min, max));
}

// A weight_qmin .. weight_qmax narrower than the bits is kept; the default means the full range.
QuantizationSpec symmetric_weight_spec(const SymmetricOptions& options) {
  const OwnOptions& own = options.own;
  if (has_plain_weights(own))
    return plain_weight_spec(own, options.is_per_channel,
                             {options.weight_qmin, options.weight_qmax});
  QuantizationSpec weight = weight_spec(
      {own.weight_bits, options.is_per_channel, own.group_size, own.search_weight_ranges});
  const SymmetricOptions defaults;
  if (options.weight_qmin == defaults.weight_qmin && options.weight_qmax == defaults.weight_qmax)
    return weight;
  if (own.weight_bits == 16)
    throw Error("quantizer", "weight_bits",
                "got 16 together with weight_qmin .. weight_qmax, which narrow 8 bits; leave those "
                "out");
  if (own.weight_bits < 8 &&
      (options.weight_qmin < *weight.quant_min || options.weight_qmax > *weight.quant_max))
    throw Error("quantizer", "weight_qmin .. weight_qmax",
                fmt::format("{}-bit weights lie within {} .. {}, got {} .. {}", own.weight_bits,
                            *weight.quant_min, *weight.quant_max, options.weight_qmin,
                            options.weight_qmax));
  weight.quant_min = options.weight_qmin;
  weight.quant_max = options.weight_qmax;
  return weight;
}

bool is_dynamic(const QuantizationConfig& config) {
  return config.input_activation && config.input_activation->is_dynamic;
}

// The rule table that a config uses.
enum class ConfigKind { kStatic, kDynamic, kWeightOnly };
ConfigKind kind_of(const QuantizationConfig& config) {
  if (is_weight_only(config)) return ConfigKind::kWeightOnly;
  return is_dynamic(config) ? ConfigKind::kDynamic : ConfigKind::kStatic;
}

// Why a static rule does not apply to the op, if no other table takes it.
constexpr const char* kDynamicOnly =
    "its configuration is dynamic, which applies to linear and convolution only";

// ---- sums that norms read
//
//   y = layer_norm(x + linear(...))
//
// Some channels of such a sum, the residual stream of transformers, are often a hundred times as
// large as the others. One scale for all channels would round the others to almost nothing. The
// norm would rescale them, and it computes in float anyway.

constexpr std::string_view kNorms[] = {"aten.layer_norm", "aten.native_layer_norm", "aten.rms_norm",
                                       "aten.group_norm", "aten.native_group_norm"};
constexpr std::string_view kSums[] = {"aten.add.Tensor", "aten.add_.Tensor"};
constexpr std::string_view kLayers[] = {"linear", "addmm", "mm"};  // rules
constexpr std::string_view kMovesBeforeNorms[] = {
    "aten.view",      "aten.reshape", "aten.transpose", "aten.permute",
    "aten.unsqueeze", "aten.squeeze", "aten.flatten",   "aten.to",
    "aten._to_copy",  "aten.dropout", "aten.clone",     "aten.contiguous"};
constexpr const char* kReason =
    "only norms and float sums read it, and one scale would not fit all its channels";

template <size_t count>
bool is_any(const Node& node, const std::string_view (&ops)[count]) {
  return std::ranges::any_of(ops, [&](std::string_view op) { return node.is(op); });
}

// Removes the annotations of additions whose results are read only by norms and other such
// additions, looking through views; and, from linear layers that only those additions read, the
// output spec, so that the layer multiplies integers and returns floats. Outputs of the program
// keep their annotations.
class FloatSums {
 public:
  FloatSums(const Graph& graph, Annotations& annotations) : annotations_(annotations) {
    for (const Node* node : graph.nodes()) nodes_.push_back(node);
    std::ranges::reverse(nodes_);
  }

  // Records the reasons in `state`.
  void run(RuleState& state) {
    for (const Node* node : nodes_) {
      QuantizationAnnotation* annotation = annotations_.find(node);
      const Value* result = node->output_or_null();
      if (annotation == nullptr || result == nullptr || !has_own_scale(*annotation) ||
          !is_for_norms(*result))
        continue;
      if (annotation->rule == "add" && is_any(*node, kSums)) {
        sums_.insert(node);
        annotations_.erase(node);
        state.refusals[node] = kReason;
      } else if (std::ranges::find(kLayers, annotation->rule) != std::end(kLayers)) {
        annotation->output_qspec.reset();
        annotation->output_limits.reset();
      }
    }
  }

 private:
  static bool has_own_scale(const QuantizationAnnotation& annotation) {
    return annotation.output_qspec &&
           std::holds_alternative<QuantizationSpec>(*annotation.output_qspec);
  }

  // A decomposed norm begins with a square or with the mean.
  bool is_norm(const Node& node) const {
    const bool is_square =
        node.is("aten.pow") ||
        (node.is("aten.mul") && node.find_input("other") == node.find_input("self"));
    return is_any(node, kNorms) ||
           ((is_square || node.is("aten.mean")) && !annotations_.find(&node));
  }

  // Whether the node is a norm or an addition left float, or a view that only such nodes read.
  bool reads_floats(const Node& node) const {
    if (is_norm(node) || sums_.contains(&node)) return true;
    if (is_any(node, kMovesBeforeNorms))
      return node.output_or_null() && is_for_norms(*node.output_or_null());
    return is_scaled_by_root(node);
  }

  // Whether it is x * rsqrt(...) without annotation.
  bool is_scaled_by_root(const Node& node) const {
    if (!node.is("aten.mul") || annotations_.find(&node)) return false;
    const std::vector<Value*> factors = node.inputs();
    return std::ranges::any_of(factors, [](const Value* factor) {
      const Node* maker = factor->producer();
      return maker != nullptr && maker->is("aten.rsqrt");
    });
  }

  bool is_for_norms(const Value& value) const {
    const std::vector<Node*>& users = value.users();
    return !users.empty() && !value.is_output() &&
           std::ranges::all_of(users, [&](const Node* user) { return reads_floats(*user); });
  }

  Annotations& annotations_;
  std::vector<const Node*> nodes_;  // in reverse graph order
  std::unordered_set<const Node*> sums_;
};

}  // namespace

QuantizationConfig get_symmetric_quantization_config(const SymmetricOptions& given) {
  SymmetricOptions options = given;
  check_range("act_qmin .. act_qmax", options.act_qmin, options.act_qmax);
  const SymmetricOptions full;
  if (options.own.activation_bits == 16 &&
      (options.reduce_range || options.act_qmin != full.act_qmin ||
       options.act_qmax != full.act_qmax))
    throw Error("quantizer", "activation_bits",
                "got 16 together with reduce_range or act_qmin .. act_qmax, which narrow 8 bits; "
                "leave those out");
  if (options.reduce_range) {
    const IntegerRange reduced =
        reduced_range(options.own, DType::kInt8, {options.act_qmin, options.act_qmax});
    options.act_qmin = reduced.min;
    options.act_qmax = reduced.max;
    check_range("reduce_range of act_qmin .. act_qmax", options.act_qmin, options.act_qmax);
  }
  check_range("weight_qmin .. weight_qmax", options.weight_qmin, options.weight_qmax);
  QuantizationConfig config =
      own_config(options.own, symmetric_weight_spec(options),
                 activation_spec(options.own, DType::kInt8, {options.act_qmin, options.act_qmax},
                                 options.is_dynamic),
                 !options.is_dynamic);
  return options.is_qat ? to_qat_config(std::move(config), options.own) : config;
}

struct XNNPACKQuantizer::Run {
  const QuantizationConfig* config = nullptr;
  std::string description;  // for reports
  NodeFilter filter;
  // the filter's answer for weights, which belong to no module
  bool accepts_graph_inputs = false;
  std::string op;
};

XNNPACKQuantizer& XNNPACKQuantizer::set_filter_function(NodeFilter filter) {
  filter_ = std::move(filter);
  return *this;
}

bool XNNPACKQuantizer::has_static_config() const {
  const auto is_static = [](const ConfigTable::Config& config) {
    return config && !is_dynamic(*config);
  };
  const auto any_static = [&](const ConfigTable::Rows& rows) {
    return std::ranges::any_of(rows, [&](const auto& row) { return is_static(row.second); });
  };
  return (rows().global() && is_static(*rows().global())) || any_static(rows().module_names()) ||
         any_static(rows().module_types()) || any_static(rows().operator_types());
}

void XNNPACKQuantizer::transform_for_annotation(Graph& graph) {
  scalars_to_constants(graph, is_compat() ? ScalarOps::kAll : ScalarOps::kFloatOnly);
  if (is_compat()) {
    if (has_static_config()) remove_dead(graph);  // torchao does so while it looks for batch norms
    return;
  }
  fold_pad(graph);
  constant_products_to_linear(graph);
  remove_dead(graph);
}

void XNNPACKQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  const bool compat = is_compat();
  if (compat)
    annotate_compat(graph, annotations, state);
  else
    annotate_own(graph, annotations, state);
  const std::span<const std::string> sharing =
      compat ? xnnpack_sharing_ops_compat() : xnnpack_sharing_ops();
  report_float_nodes(graph, annotations,
                     {name(), rows(), filter_, state, compute_ops(), sharing, true}, report);
}

void XNNPACKQuantizer::annotate_own(Graph& graph, Annotations& annotations,
                                    RuleState& state) const {
  const auto allows = [&](const Node& node) {
    return (!filter_ || filter_(node)) && config_of(node).config;
  };
  ConfigFitter fitter(graph, rows().global());
  const std::unordered_set<const Node*> formulas = find_formula_nodes(graph);
  const std::unordered_set<const Value*> ahead = find_input_free_values(graph);
  const auto choose = [&](ConfigKind table, const Match& match) -> ConfigChoice {
    if (has_norm_outside_of_training(match)) return {};
    // Do not fuse a clamp whose settings leave it float; a shorter variant takes the op alone.
    const ConfigChoice choice = config_of(match);
    if (!choice.config) return choice;
    if (ahead.contains(match.root->output_or_null())) return {nullptr, kComputedAhead};
    if (filter_ &&
        !std::ranges::all_of(match.nodes, [&](const Node* node) { return filter_(*node); }))
      return {};
    if (formulas.contains(match.root)) return {nullptr, kPartOfFormula};
    const ConfigKind kind = kind_of(*choice.config);
    if (kind == table) return {fitter.fit(*choice.config, match), {}};
    return {nullptr, table != ConfigKind::kStatic   ? ""
                     : kind == ConfigKind::kDynamic ? kDynamicOnly
                                                    : kWeightsAlone};
  };
  const auto run = [&](std::span<const AnnotationRule> rules, ConfigKind table) {
    annotate_by_rules(
        graph, rules,
        [&](const AnnotationRule&, const Match& match) { return choose(table, match); },
        annotations, state);
  };
  run(xnnpack_rules(), ConfigKind::kStatic);
  run(xnnpack_dynamic_rules(), ConfigKind::kDynamic);
  run(weight_only_rules(), ConfigKind::kWeightOnly);
  const auto choose_any = [&](const Node& node) -> ConfigChoice {
    const ConfigTable::Choice choice = config_of(node);
    return allows(node) ? ConfigChoice{choice.config, {}} : ConfigChoice{nullptr, choice.reason};
  };
  annotate_recurrent(graph, choose_any, annotations, state);
  FloatSums(graph, annotations).run(state);
  const auto shares = [&](const Node& node) {
    return shares_scale(node) && allows(node) &&
           kind_of(*config_of(node).config) == ConfigKind::kStatic;
  };
  propagate_sharing(graph, xnnpack_sharing_ops(), shares, annotations);
}

void XNNPACKQuantizer::annotate_compat(Graph& graph, Annotations& annotations,
                                       RuleState& state) const {
  for (const auto& [name, config] : rows().module_names())
    if (config)
      annotate_run(graph,
                   {&*config,
                    fmt::format("module_name \"{}\"", name),
                    [&](const Node& node) { return is_in_module(node, name); },
                    false,
                    {}},
                   annotations, state);
  for (const auto& [type, config] : rows().module_types())
    if (config)
      annotate_run(graph,
                   {&*config,
                    fmt::format("module_type \"{}\"", type),
                    [&](const Node& node) { return is_in_module_type(node, type); },
                    false,
                    {}},
                   annotations, state);
  const NodeFilter is_elsewhere = [&](const Node& node) {
    return std::ranges::none_of(rows().module_names(),
                                [&](const auto& row) { return is_in_module(node, row.first); }) &&
           std::ranges::none_of(rows().module_types(), [&](const auto& row) {
             return is_in_module_type(node, row.first);
           });
  };
  for (const auto& [op, config] : rows().operator_types())
    if (config)
      annotate_run(graph, {&*config, fmt::format("op_type \"{}\"", op), is_elsewhere, true, op},
                   annotations, state);
  if (rows().global() && *rows().global())
    annotate_run(graph, {&**rows().global(), "the global configuration", is_elsewhere, true, {}},
                 annotations, state);
  propagate_sharing(graph, xnnpack_sharing_ops_compat(), {}, annotations);
}

void XNNPACKQuantizer::annotate_run(Graph& graph, const Run& run, Annotations& annotations,
                                    RuleState& state) const {
  const auto accepts = [&](const Node& node) {
    return (!filter_ || filter_(node)) && run.filter(node);
  };
  const auto choose = [&](const AnnotationRule& rule, const Match& match) -> ConfigChoice {
    const std::span<const std::string> ops = operator_types_of(rule.name);
    if (!run.op.empty() && std::ranges::find(ops, run.op) == ops.end()) return {};
    if (rule.name == "cat") return {run.config, {}};  // torchao does not filter it
    const bool is_pool = rule.name == "adaptive_avg_pool2d";
    for (const Node* node : is_pool
                                ? pool_partition(graph, *match.root)
                                : std::vector<const Node*>(match.nodes.begin(), match.nodes.end()))
      if (!accepts(*node)) return {};
    for (const std::string& slot : rule.owned)
      for (const Value* value : match.find_all(slot))
        if (value->producer() ? !accepts(*value->producer()) : !run.accepts_graph_inputs)
          return {nullptr, fmt::format("the filter of {} excludes its weight %{} (compat torchao)",
                                       run.description, value->name())};
    return {run.config, {}};
  };
  if (run.config->is_qat && !is_dynamic(*run.config)) {
    annotate_by_rules(graph, xnnpack_batch_norm_rules_compat(), choose, annotations, state);
    // torchao leaves norms within a pattern unmarked
    for (const Node* norm : graph.nodes_of("aten.batch_norm"))
      if (const QuantizationAnnotation* annotation = annotations.find(norm);
          annotation && !annotation->output_qspec)
        annotations.erase(norm);
  }
  annotate_by_rules(
      graph, is_dynamic(*run.config) ? xnnpack_dynamic_rules_compat() : xnnpack_rules_compat(),
      choose, annotations, state);
}

}  // namespace octet
