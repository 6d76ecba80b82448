#include "quantizers/common/weight_only.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/ops/weighted_ops.h"
#include "quantizers/common/checks.h"
#include "quantizers/common/extra_options.h"
#include "quantizers/common/rule_rows.h"

namespace octet {

namespace {

constexpr int64_t kMax4Bits = 7;

using rule_rows::Checks;
using rule_rows::Inputs;

// clang-format off
const Inputs kWeightAlone      = {{"w", kWeight}};
const Inputs kTransposedWeight = {{"w", weight_along(1)}};
const Checks kWeightChecks = {weight_is_float32, weight_is_constant};
const Checks kRowChecks  = {weight_is_float32, weight_is_constant, groups_divide_weight};

const std::vector<AnnotationRule> kWeightOnlyRules = {
    // name                        pattern                    inputs             output        checks
    {"weight_only_linear",         rule_rows::kLinear,        kWeightAlone,      LeaveFloat{}, kRowChecks},
    {"weight_only_addmm",          rule_rows::kAddmm,         kTransposedWeight, LeaveFloat{}, kRowChecks},
    {"weight_only_mm",             rule_rows::kMm,            kTransposedWeight, LeaveFloat{}, kRowChecks},
    {"weight_only_conv",           rule_rows::kConv,          kWeightAlone,      LeaveFloat{}, kWeightChecks},
    {"weight_only_conv_transpose", rule_rows::kConvTranspose, kTransposedWeight, LeaveFloat{}, kWeightChecks},
    {"weight_only_embedding",      "embedding(w, i)",         kWeightAlone,      LeaveFloat{}, kRowChecks},
};
// clang-format on

[[noreturn]] void refuse(const char* option, const std::string& message) {
  throw Error("quantizer", option, message);
}

int64_t group_size_of(const WeightOptions& options) {
  const int64_t group = options.group_size.value_or(options.bits < 8 ? kDefaultGroupSize : 0);
  if (group < 0 || group == 1)
    refuse("group_size", fmt::format("got {}, want 2 or more, or 0 for no groups", group));
  if (group == 0 && options.bits < 8 && !options.is_per_channel)
    refuse("weight_bits",
           fmt::format("{}-bit weights with one scale per tensor keep too little; want a "
                       "group_size, or is_per_channel",
                       options.bits));
  return group;
}

bool is_convolution(const Node& node) { return node.target().starts_with("aten.conv"); }
// weight: [in, out]
bool takes_columns(const Node& node) {
  const WeightedOp* row = find_weighted_op(node);
  return row != nullptr && row->form == WeightForm::kColumns;
}

// The most input channels that divide all channels and keep the block within `group` elements; at
// least one.
int64_t channels_in_block(int64_t channels, int64_t kernel, int64_t group) {
  int64_t result = 1;
  for (int64_t count = 1; count <= channels && count * kernel <= group; ++count)
    if (channels % count == 0) result = count;
  return result;
}

// weight: [out, in / groups, kernel...]; transposed: [in, out / groups, kernel...].
Granularity block_of_convolution(const std::vector<int64_t>& weight, int64_t group,
                                 bool transposed) {
  Granularity block{.kind = Granularity::Kind::kPerBlock, .block_size = weight};
  int64_t kernel = 1;
  for (size_t i = 2; i < weight.size(); ++i) kernel *= weight[i];
  block.block_size[transposed ? 1 : 0] = 1;
  int64_t& channels = block.block_size[transposed ? 0 : 1];
  channels = channels_in_block(channels, kernel, group);
  return block;
}

bool has_few_bits_alone(const QuantizationConfig& config) {
  return is_weight_only(config) && !config.is_qat && config.weight->quant_max &&
         *config.weight->quant_max <= kMax4Bits;
}

AffineOptions* find_affine(std::optional<QuantizationSpec>& spec, Granularity::Kind kind) {
  if (!spec || !spec->observer_or_fake_quant_ctr.affine ||
      spec->observer_or_fake_quant_ctr.affine->granularity.kind != kind)
    return nullptr;
  return &*spec->observer_or_fake_quant_ctr.affine;
}

}  // namespace

QuantizationSpec weight_spec(const WeightOptions& options) {
  const bool is_wide = options.bits == 16;
  if (options.bits != 8 && !is_wide && (options.bits < 2 || options.bits > 4))
    refuse("weight_bits", fmt::format("got {}, want 16, 8, 4, 3 or 2", options.bits));
  const int64_t group = group_size_of(options);
  if (is_wide && group > 0)
    refuse("group_size", fmt::format("got {} together with 16-bit weights, want 0", group));
  QuantizationSpec spec;
  spec.dtype = is_wide ? DType::kInt16 : DType::kInt8;
  const int64_t steps = int64_t{1} << (options.bits - 1);
  spec.quant_min = options.bits < 8 ? -steps : 1 - steps;
  spec.quant_max = steps - 1;
  spec.observer_or_fake_quant_ctr.eps = kFloatEps;
  if (group > 0) {
    spec.observer_or_fake_quant_ctr.name =
        options.search_weight_ranges ? "affine_mse" : "affine_min_max";
    // Gains 0.3 dB on MiniLM's weights over SYMMETRIC, whose scale must fit both ends; zero points
    // stay 0, as the kernels require.
    spec.observer_or_fake_quant_ctr.affine =
        AffineOptions{.granularity = {.kind = Granularity::Kind::kPerGroup,
                                      .group_size = group,
                                      .block_size = {}},
                      .mapping_type = MappingType::kSymmetricNoClippingErr,
                      .scale_dtype = DType::kFloat32,
                      .zero_point_dtype = DType::kInt8,
                      .has_16_bit_scales = true};
    return spec;
  }
  spec.observer_or_fake_quant_ctr.name =
      weight_observer_name(options.search_weight_ranges && !is_wide, options.is_per_channel);
  spec.qscheme =
      options.is_per_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  spec.ch_axis = 0;
  return spec;
}

QuantizationSpec per_token_spec(DType dtype, int64_t quant_min, int64_t quant_max) {
  QuantizationSpec spec;
  spec.dtype = dtype;
  spec.quant_min = quant_min;
  spec.quant_max = quant_max;
  spec.is_dynamic = true;
  spec.observer_or_fake_quant_ctr.name = "affine_placeholder";
  spec.observer_or_fake_quant_ctr.eps = kFloatEps;
  spec.observer_or_fake_quant_ctr.affine =
      AffineOptions{.granularity = {.kind = Granularity::Kind::kPerToken, .block_size = {}},
                    .mapping_type = MappingType::kAsymmetric,
                    .scale_dtype = DType::kFloat32,
                    .zero_point_dtype = DType::kInt32};
  return spec;
}

bool is_weight_only(const QuantizationConfig& config) {
  return config.weight && is_integer(config.weight->dtype) && !config.input_activation &&
         !config.output_activation;
}

std::span<const AnnotationRule> weight_only_rules() { return kWeightOnlyRules; }

Verdict weight_is_float32(const RuleMatch& at) {
  const Value* weight = at.match.find("w");
  if (weight->meta && weight->meta->dtype == DType::kFloat32) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("weight %{} is {}, want float32", weight->name(),
                  weight->meta ? name_of(weight->meta->dtype) : "of unknown dtype"));
}

Verdict groups_divide_weight(const RuleMatch& at) {
  std::optional<QuantizationSpec> spec = at.config.weight;
  const bool columns = takes_columns(at.anchor());  // ConfigFitter replaced their groups by blocks
  const AffineOptions* affine =
      find_affine(spec, columns ? Granularity::Kind::kPerBlock : Granularity::Kind::kPerGroup);
  if (affine == nullptr) return Verdict::accept();
  const Value* weight = at.match.find("w");
  const std::vector<int64_t> shape = weight->meta ? weight->meta->shape() : std::vector<int64_t>{};
  const int64_t group =
      columns ? affine->granularity.block_size.front() : affine->granularity.group_size;
  const int64_t length = shape.empty() ? 0 : columns ? shape.front() : shape.back();
  if (length > 0 && length % group == 0) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("group size {} does not divide the {} of %{}, which have {} elements", group,
                  columns ? "columns" : "rows", weight->name(), length));
}

ConfigFitter::ConfigFitter(const Graph& graph,
                           const std::optional<std::optional<QuantizationConfig>>& global) {
  if (!global || !*global || !has_few_bits_alone(**global)) return;
  global_ = &**global;
  for (const Node* node : graph.nodes_of("aten.embedding.default")) {
    const Value* table = node->find_input("weight");
    if (table != nullptr && table->meta) tables_.push_back(table->meta->shape());
  }
}

bool ConfigFitter::is_table(const Match& match) const {
  const Value* weight = match.find("w");
  return (match.nodes.back()->is("aten.embedding") || match.nodes.back()->is("aten.linear")) &&
         weight->meta && std::ranges::find(tables_, weight->meta->shape()) != tables_.end();
}

const QuantizationConfig* ConfigFitter::fit(const QuantizationConfig& config, const Match& match) {
  const Node& anchor = *match.nodes.back();
  if (&config == global_ && is_table(match)) {
    QuantizationConfig fitted = config;
    const bool searches = config.weight->observer_or_fake_quant_ctr.name.ends_with("mse");
    const AffineOptions* groups = find_affine(fitted.weight, Granularity::Kind::kPerGroup);
    fitted.weight =
        weight_spec({.group_size = groups == nullptr ? 0 : groups->granularity.group_size,
                     .search_weight_ranges = searches});
    return &made_.emplace_back(std::move(fitted));
  }
  if (!is_convolution(anchor) && !takes_columns(anchor)) return &config;
  QuantizationConfig fitted = config;
  AffineOptions* tokens = find_affine(fitted.input_activation, Granularity::Kind::kPerToken);
  AffineOptions* groups = find_affine(fitted.weight, Granularity::Kind::kPerGroup);
  if (takes_columns(anchor)) {
    if (groups == nullptr) return &config;
    groups->granularity = {.kind = Granularity::Kind::kPerBlock,
                           .block_size = {groups->granularity.group_size, 1}};
    return &made_.emplace_back(std::move(fitted));
  }
  const Value* weight = match.find("w");
  if (tokens == nullptr && (groups == nullptr || !weight->meta)) return &config;
  if (tokens != nullptr)
    tokens->granularity = {.kind = Granularity::Kind::kPerAxis, .axis = 0, .block_size = {}};
  if (groups != nullptr && weight->meta)
    groups->granularity = block_of_convolution(
        weight->meta->shape(), groups->granularity.group_size, is_transposed_conv(anchor));
  return &made_.emplace_back(std::move(fitted));
}

}  // namespace octet
