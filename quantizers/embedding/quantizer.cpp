#include "quantizers/embedding/quantizer.h"

#include <fmt/format.h>

#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "quantizers/common/checks.h"
#include "quantizers/common/float_report.h"
#include "quantizers/common/rule_rows.h"

namespace octet {

namespace {

const std::string kEmbedding = "aten.embedding";

using rule_rows::Inputs;
const Inputs kTable = {{"w", kWeight}};

const std::vector<RuleCheck> kEmbeddingChecks = {weight_is_float32, weight_is_constant};

// clang-format off
const std::vector<AnnotationRule> kEmbeddingRules = {
    // name           pattern                                                                  inputs  output        checks
    {"embedding",     "embedding(w, i)",                                                       kTable, LeaveFloat{}, kEmbeddingChecks},
    {"embedding_bag", "{embedding_bag|_embedding_bag|_embedding_bag_forward_only}(w, i, ...)", kTable, LeaveFloat{}, kEmbeddingChecks},
};
// clang-format on
const std::vector<std::string> kEmbeddingOps = {
    kEmbedding, "aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only"};

}  // namespace

QuantizationConfig get_embedding_quantization_config(int64_t bits, Compat compat) {
  if (bits != 8 && (bits < 2 || bits > 4))
    throw Error("quantizer", "weight_bits", fmt::format("got {}, want 8, 4, 3 or 2", bits));
  QuantizationSpec weight;
  weight.dtype = DType::kUInt8;
  weight.qscheme = QScheme::kPerChannelAffineFloatQParams;
  weight.ch_axis = 0;
  weight.observer_or_fake_quant_ctr.name =
      compat == Compat::kTorchao ? "per_channel_min_max" : "whole_zero_point_min_max";
  // The smallest scale. A row with a smaller one gets scale 1 and becomes zeros, so that tables of
  // small numbers vanish in compat.
  weight.observer_or_fake_quant_ctr.eps = compat == Compat::kTorchao ? kBackendEps : kFloatEps;
  if (bits < 8) {
    weight.quant_min = 0;
    weight.quant_max = (int64_t{1} << bits) - 1;
  }
  QuantizationConfig config;
  config.weight = weight;
  return config;
}

EmbeddingQuantizer::EmbeddingQuantizer(Compat compat, std::string name)
    : ConfigurableQuantizer(std::move(name), {get_embedding_quantization_config(8, compat)},
                            compat) {}

void EmbeddingQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  if (is_compat()) {
    annotate_compat(graph, annotations);
  } else {
    annotate_by_rules(graph, kEmbeddingRules, by_settings(), annotations, state);
  }
  report_float_nodes(graph, annotations, {name(), rows(), {}, state, kEmbeddingOps, {}}, report);
}

void EmbeddingQuantizer::annotate_compat(Graph& graph, Annotations& annotations) const {
  for (Node* node : graph.nodes_of(kEmbedding + ".default")) {
    const ConfigTable::Choice choice = config_of(*node);
    Value* weight = node->find_input("weight");
    if (!choice.config || !weight) continue;
    QuantizationAnnotation annotation;
    annotation.rule = "embedding";
    annotation.annotated = false;  // torchao does not claim the node
    annotation.set_input(weight, *choice.config->weight);
    annotations[node] = std::move(annotation);
  }
}

}  // namespace octet
