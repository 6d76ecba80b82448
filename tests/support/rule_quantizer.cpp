#include "support/rule_quantizer.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "annotate/annotation/quant_spec.h"
#include "annotate/observers/observer.h"
#include "core/base/error.h"

namespace octet::test {
namespace {

using Json = nlohmann::ordered_json;

const std::map<std::string, std::string> kObservers = {
    {"HistogramObserver", "histogram"},
    {"MinMaxObserver", "min_max"},
    {"MovingAverageMinMaxObserver", "moving_average_min_max"},
    {"PerChannelMinMaxObserver", "per_channel_min_max"},
    {"MovingAveragePerChannelMinMaxObserver", "moving_average_per_channel_min_max"},
    {"PlaceholderObserver", "placeholder"},
    {"AffineQuantizedMinMaxObserver", "affine_min_max"},
    {"AffineQuantizedMovingAverageMinMaxObserver", "affine_moving_average_min_max"},
    {"AffineQuantizedPlaceholderObserver", "affine_placeholder"},
    {"FusedMovingAvgObsFakeQuantize", "fused_moving_avg_obs_fake_quantize"},
};

// args: the arguments of the class; those of a fake-quant include the class of its observer.
// Octet's observers have the names of its registry.
std::string observer_name(const std::string& peer_class, const Json& args) {
  if (peer_class == "FakeQuantize")
    return fmt::format(
        "fake_quantize({})",
        observer_name(args.value("observer", "MovingAverageMinMaxObserver"), Json::object()));
  if (std::none_of(peer_class.begin(), peer_class.end(),
                   [](unsigned char c) { return std::isupper(c); }))
    return peer_class;
  const std::string* name = find_observer_name(peer_class);
  if (name == nullptr) throw Error("annotate", peer_class, "an observer without counterpart");
  return *name;
}

// "1" or "1.0": the value of that argument, or of that element of a list argument. Null for
// literals and beyond the end.
Value* find_argument(const Node& node, const std::string& index) {
  const size_t dot = index.find('.');
  const size_t position = std::stoul(index);
  if (position >= node.arguments().size()) return nullptr;
  const Argument& argument = node.arguments()[position].value;
  if (dot == std::string::npos) return argument.value_or_null();
  const std::vector<Value*>* list = argument.find<std::vector<Value*>>();
  const size_t item = std::stoul(index.substr(dot + 1));
  return list != nullptr && item < list->size() ? (*list)[item] : nullptr;
}

Value* value_of(const std::string& reference, Node& node) {
  if (reference == "$self") return node.output();
  Value* value = nullptr;
  if (reference.starts_with("$arg"))
    value = find_argument(node, reference.substr(4));
  else if (Node* named = node.graph().find_node(reference.substr(1)))
    value = named->output();
  else
    value = node.graph().find_value(reference.substr(1));
  if (value == nullptr)
    throw Error("annotate", "%" + node.name(), "unknown reference " + reference);
  return value;
}

EdgeOrNode edge_or_node(const Json& json, Node& node) {
  if (json.is_string()) return value_of(json, node);
  return Edge{value_of(json.at(0), node),
              json.at(1) == "$self" ? &node : value_of(json.at(1), node)->producer()};
}

template <typename T>
std::optional<T> find(const Json& json, const char* key) {
  if (!json.contains(key) || json.at(key).is_null()) return std::nullopt;
  return json.at(key).get<T>();
}

// The fields that all kinds but shared have.
template <typename Spec>
void read_common(const Json& json, Spec& spec) {
  spec.dtype = find_dtype(json.at("dtype").get<std::string>()).value();
  spec.quant_min = find<int64_t>(json, "quant_min");
  spec.quant_max = find<int64_t>(json, "quant_max");
  if (const std::optional<std::string> name = find<std::string>(json, "qscheme"))
    spec.qscheme = find_qscheme(*name).value();
}

// {"mapping_type": "SYMMETRIC", "granularity": {"kind": "per_group", "group_size": 32},
// "zero_point_dtype": "int32"}
AffineOptions read_affine(const Json& json) {
  AffineOptions affine;
  for (MappingType type :
       {MappingType::kSymmetric, MappingType::kSymmetricNoClippingErr, MappingType::kAsymmetric})
    if (json.at("mapping_type") == std::string(name_of(type))) affine.mapping_type = type;
  const Json& granularity = json.at("granularity");
  for (int kind = 0; kind <= static_cast<int>(Granularity::Kind::kPerBlock); ++kind)
    if (granularity.at("kind") == std::string(name_of(static_cast<Granularity::Kind>(kind))))
      affine.granularity.kind = static_cast<Granularity::Kind>(kind);
  affine.granularity.axis =
      granularity.value("axis", affine.granularity.kind == Granularity::Kind::kPerRow ? -1 : 0);
  affine.granularity.group_size = granularity.value("group_size", 0);
  affine.granularity.block_size = granularity.value("block_size", std::vector<int64_t>{});
  if (const std::optional<std::string> name = find<std::string>(json, "scale_dtype"))
    affine.scale_dtype = find_dtype(*name);
  if (const std::optional<std::string> name = find<std::string>(json, "zero_point_dtype"))
    affine.zero_point_dtype = find_dtype(*name);
  return affine;
}

SpecVariant read_spec(const Json& json, Node& node) {
  const std::string kind = json.at("kind");
  if (kind == "shared")
    return SharedQuantizationSpec{
        edge_or_node(json.contains("edge") ? json.at("edge") : json.at("node"), node)};
  if (kind == "fixed") {
    FixedQParamsQuantizationSpec spec;
    read_common(json, spec);
    spec.scale = json.at("scale");
    spec.zero_point = json.at("zero_point");
    return spec;
  }
  if (kind == "derived") {
    DerivedQuantizationSpec spec;
    read_common(json, spec);
    for (const Json& source : json.at("from"))
      spec.derived_from.push_back(edge_or_node(source, node));
    spec.derive_name = json.at("fn") == "sum_scale" ? "sum_of_scales" : "product_of_scales";
    spec.derive_qparams_fn = find_derive_fn(spec.derive_name);
    spec.ch_axis = find<int>(json, "ch_axis");
    return spec;
  }
  QuantizationSpec spec;
  read_common(json, spec);
  spec.ch_axis = find<int>(json, "ch_axis");
  spec.is_dynamic = json.value("is_dynamic", false);
  const Json args = json.value("observer_args", Json::object());
  spec.observer_or_fake_quant_ctr.name = observer_name(json.at("observer"), args);
  spec.observer_or_fake_quant_ctr.eps = find<double>(args, "eps");
  spec.observer_or_fake_quant_ctr.bins = args.value("bins", 2048);
  spec.observer_or_fake_quant_ctr.averaging_constant = args.value("averaging_constant", 0.01);
  if (args.contains("granularity")) spec.observer_or_fake_quant_ctr.affine = read_affine(args);
  spec.observer_or_fake_quant_ctr.reduce_range = args.value("reduce_range", false);
  return spec;
}

bool applies(const Json& rule, const Node& node, int count) {
  if (rule.contains("nth") && rule.at("nth").get<int>() != count) return false;
  if (rule.contains("name") && rule.at("name") != node.name()) return false;
  if (!rule.contains("user_target")) return true;
  const Value* output = node.output_or_null();
  return output != nullptr && output->has_one_user() &&
         output->users().front()->target() == rule.at("user_target").get<std::string>();
}

QuantizationAnnotation annotation_of(const Json& rule, Node& node) {
  QuantizationAnnotation annotation;
  annotation.allow_implicit_sharing = rule.value("allow_implicit_sharing", true);
  if (rule.contains("inputs"))
    for (const auto& [index, spec] : rule.at("inputs").items()) {
      Value* input = find_argument(node, index);
      if (input != nullptr && !spec.is_null() && annotation.find_input(input) == nullptr)
        annotation.set_input(input, read_spec(spec, node));
    }
  if (rule.contains("output") && !rule.at("output").is_null())
    annotation.output_qspec = read_spec(rule.at("output"), node);
  return annotation;
}

}  // namespace

const std::string* find_observer_name(const std::string& peer_class) {
  const std::map<std::string, std::string>::const_iterator found = kObservers.find(peer_class);
  return found == kObservers.end() ? nullptr : &found->second;
}

void RuleQuantizer::annotate(Graph& graph, Annotations& annotations, Report&) {
  for (const Json& rule : rules_) {
    int count = -1;
    for (Node* node : graph.nodes()) {
      if (node->target() != rule.at("target").get<std::string>()) continue;
      ++count;
      if (!applies(rule, *node, count) || annotations.is_annotated(node)) continue;
      annotations[node] = annotation_of(rule, *node);
    }
  }
}

}  // namespace octet::test
