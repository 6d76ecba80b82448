#include "annotate/observed/annotation_json.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/sharing.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/json_text.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json name_or_null(const std::optional<DType>& dtype) {
  return dtype ? Json(name_of(*dtype)) : Json(nullptr);
}
Json name_or_null(const std::optional<QScheme>& qscheme) {
  return qscheme ? Json(name_of(*qscheme)) : Json(nullptr);
}

// In the order of the enumerators.
constexpr const char* kMappingTypes[] = {"symmetric", "symmetric_no_clipping_err", "asymmetric"};
constexpr const char* kZeroPointDomains[] = {"int", "float", "none"};

void put_granularity(const Granularity& granularity, Json& observer) {
  observer["granularity"] = name_of(granularity.kind);
  if (granularity.kind == Granularity::Kind::kPerAxis ||
      granularity.kind == Granularity::Kind::kPerRow)
    observer["axis"] = granularity.axis;
  if (granularity.kind == Granularity::Kind::kPerGroup)
    observer["group_size"] = granularity.group_size;
  if (granularity.kind == Granularity::Kind::kPerBlock)
    observer["block_size"] = granularity.block_size;
}

Json observer_json(const ObserverChoice& choice) {
  Json observer = {{"name", choice.name},
                   {"eps", or_null(choice.eps)},
                   {"bins", choice.bins},
                   {"averaging_constant", choice.averaging_constant},
                   {"reduce_range", choice.reduce_range}};
  if (choice.name.find("percentile") != std::string::npos)
    observer["percentile"] = choice.percentile;
  if (!choice.affine) return observer;
  put_granularity(choice.affine->granularity, observer);
  observer["mapping_type"] = kMappingTypes[static_cast<size_t>(choice.affine->mapping_type)];
  observer["scale_dtype"] = name_or_null(choice.affine->scale_dtype);
  observer["zero_point_dtype"] = name_or_null(choice.affine->zero_point_dtype);
  observer["has_16_bit_scales"] = choice.affine->has_16_bit_scales;
  observer["preserve_zero"] = choice.affine->preserve_zero;
  observer["zero_point_domain"] =
      kZeroPointDomains[static_cast<size_t>(choice.affine->zero_point_domain)];
  return observer;
}

// Fills in the fields of one kind of spec. `prefix`: put before names, the path of a body or
// nothing.
class SpecFields {
 public:
  SpecFields(const std::string& prefix, Json& json) : prefix_(prefix), json_(json) {}

  void operator()(const QuantizationSpec& spec) {
    json_["kind"] = "quantization";
    put_target(spec);
    json_["ch_axis"] = or_null(spec.ch_axis);
    json_["is_dynamic"] = spec.is_dynamic;
    json_["observer"] = observer_json(spec.observer_or_fake_quant_ctr);
  }
  void operator()(const SharedQuantizationSpec& spec) {
    json_["kind"] = "shared";
    json_["same_as"] = reference(spec.edge_or_node);
  }
  void operator()(const FixedQParamsQuantizationSpec& spec) {
    json_["kind"] = "fixed";
    json_["fixed"] = {{"scale", spec.scale}, {"zero_point", spec.zero_point}};
    put_target(spec);
    json_["is_dynamic"] = spec.is_dynamic;
  }
  void operator()(const DerivedQuantizationSpec& spec) {
    json_["kind"] = "derived";
    json_["derived_from"] = Json::array();
    for (const EdgeOrNode& source : spec.derived_from)
      json_["derived_from"].push_back(reference(source));
    json_["derive"] = spec.derive_name;
    put_target(spec);
    json_["ch_axis"] = or_null(spec.ch_axis);
    json_["is_dynamic"] = spec.is_dynamic;
  }

 private:
  template <typename Spec>
  void put_target(const Spec& spec) {
    json_["dtype"] = name_of(spec.dtype);
    json_["quant_min"] = or_null(spec.quant_min);
    json_["quant_max"] = or_null(spec.quant_max);
    json_["qscheme"] = name_or_null(spec.qscheme);
  }
  Json reference(const EdgeOrNode& key) const {
    return {{std::holds_alternative<Edge>(key) ? "edge" : "node", to_text(key, prefix_)}};
  }

  const std::string& prefix_;
  Json& json_;
};

Json spec_json(const SpecVariant& spec, const std::string& prefix) {
  Json json;
  json["kind"] = "";  // keeps it first; each kind sets it
  json["text"] = to_text(spec, prefix);
  std::visit(SpecFields(prefix, json), spec);
  return json;
}

Json qparams_json(const Observer& observer) {
  const DType dtype = observer.args().dtype;
  const bool is_float =
      is_floating_point(dtype) && dtype != DType::kFloat8E5M2 && dtype != DType::kFloat8E4M3FN;
  if (observer.args().is_dynamic || is_float || !observer.has_data()) return nullptr;
  try {
    const QParams qparams = observer.calculate_qparams();
    Json json;
    json["scale"] = qparams.scale;
    json["zero_point"] = qparams.float_zero_point.empty() ? Json(qparams.zero_point)
                                                          : Json(qparams.float_zero_point);
    json["axis"] = qparams.axis >= 0 ? Json(qparams.axis) : Json(nullptr);
    json["block_size"] = qparams.block_size;
    return json;
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

using GroupOfKey = std::unordered_map<EdgeOrNode, int, EdgeOrNodeHash>;

// The group of the observer node through which a node reads `value`; -1: none.
int observed_group(const Node& node, const Value* value) {
  for (const Value* input : node.inputs()) {
    const Node* point = input->producer();
    if (is_observer_node(point) && observed_value(*point) == value) return group_of(*point);
  }
  return -1;
}

// The group of the observer node right after a value; -1: none.
int observed_group(const Value& output) {
  for (const Node* user : output.users())
    if (is_observer_node(user)) return group_of(*user);
  return -1;
}

// Visits the program and its bodies and writes nodes and groups.
class Dump {
 public:
  Dump(const Annotations& annotations, const ObservedGraph* observed)
      : annotations_(annotations), observed_(observed) {}

  std::string run(const Graph& graph) {
    add_graph(graph, "");
    for (const Body& body : bodies_within(graph)) add_graph(*body.graph, body.path + ".");
    const std::vector<Json> groups = group_list();
    std::string text = fmt::format("{{\"format\": {},\n", kFormat);
    put_lines("nodes", nodes_, text);
    text += ",\n";
    put_lines("groups", groups, text);
    return text + "}\n";
  }

 private:
  struct Group {
    std::vector<std::string> members;
    // that of the first member with an unshared spec, else the final spec of the first member
    Json spec;
    bool has_own = false;  // whether it is unshared
  };

  static void put_lines(const char* key, const std::vector<Json>& items, std::string& text) {
    text += fmt::format("\"{}\": [", key);
    for (size_t i = 0; i < items.size(); ++i)
      text += (i > 0 ? ",\n  " : "\n  ") +
              dump_json(items[i], -1, false, Json::error_handler_t::replace);
    text += "]";
  }

  void add_graph(const Graph& graph, const std::string& prefix) {
    GroupOfKey declared;
    if (observed_ == nullptr) declared = declared_groups(graph);
    for (Node* node : graph.nodes()) {
      const QuantizationAnnotation* annotation = annotations_.find(node);
      if (annotation == nullptr) continue;
      const std::vector<ModuleFrame> modules = module_stack(*node);
      Json json = {{"name", prefix + node->name()},
                   {"target", node->target()},
                   {"module", modules.empty() ? "" : modules.back().path},
                   {"rule", annotation->rule},
                   {"allow_implicit_sharing", annotation->allow_implicit_sharing},
                   {"inputs", Json::array()},
                   {"output", nullptr}};
      for (const auto& [value, spec] : annotation->input_qspec_map) {
        const Edge edge{value, node};
        json["inputs"].push_back(add_tensor(
            edge, spec, observed_ != nullptr ? observed_group(*node, value) : declared.at(edge),
            prefix));
      }
      for (Value* output : node->outputs()) {
        const SpecVariant* spec = annotation->find_output(output);
        if (spec == nullptr) continue;
        Json tensor = add_tensor(
            output, *spec, observed_ != nullptr ? observed_group(*output) : declared.at(output),
            prefix);
        if (node->output_or_null() != nullptr)
          json["output"] = std::move(tensor);
        else
          json["outputs"].push_back(std::move(tensor));
      }
      nodes_.push_back(std::move(json));
    }
  }

  GroupOfKey declared_groups(const Graph& graph) {
    const SharingGroups groups = find_sharing_groups(graph, annotations_);
    GroupOfKey group_of_key;
    for (const SharingGroups::Member& member : groups.members)
      group_of_key[member.key] = declared_count_ + member.group;
    declared_count_ += groups.group_count;
    return group_of_key;
  }

  Json add_tensor(const EdgeOrNode& key, const SpecVariant& spec, int group,
                  const std::string& prefix) {
    const std::string name = to_text(key, prefix);
    Json json = spec_json(spec, prefix);
    if (group >= 0) {
      if (groups_.size() <= static_cast<size_t>(group))
        groups_.resize(static_cast<size_t>(group) + 1);
      Group& entry = groups_[static_cast<size_t>(group)];
      entry.members.push_back(name);
      const bool is_own = !std::holds_alternative<SharedQuantizationSpec>(spec);
      if (is_own ? !entry.has_own : entry.spec.is_null())
        entry.spec = is_own ? json : spec_json(end_of(spec), prefix);
      entry.has_own |= is_own;
    }
    return {{"tensor", name},
            {"spec", std::move(json)},
            {"group", group >= 0 ? Json(group) : Json(nullptr)}};
  }

  // The final spec of a shared one. Circles and dangling references were refused when the groups
  // were found.
  const SpecVariant& end_of(const SpecVariant& spec) const {
    const SpecVariant* end = &spec;
    while (const SharedQuantizationSpec* shared = std::get_if<SharedQuantizationSpec>(end)) {
      const Edge* edge = std::get_if<Edge>(&shared->edge_or_node);
      const QuantizationAnnotation* user =
          edge == nullptr ? nullptr : annotations_.find(edge->user);
      OCTET_ASSERT(edge == nullptr || user != nullptr, to_text(*end));
      end = edge != nullptr ? user->find_input(edge->value)
                            : annotations_.find_output(std::get<Value*>(shared->edge_or_node));
      OCTET_ASSERT(end != nullptr, to_text(spec));
    }
    return *end;
  }

  std::vector<Json> group_list() const {
    std::vector<Json> list;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      if (group.members.empty()) continue;
      const Observer* observer = observed_ == nullptr ? nullptr : observed_->observers.at(i).get();
      list.push_back({{"group", i},
                      {"members", group.members},
                      {"spec", group.spec},
                      {"quant_min", observer != nullptr ? Json(observer->quant_min())
                                                        : group.spec.at("quant_min")},
                      {"quant_max", observer != nullptr ? Json(observer->quant_max())
                                                        : group.spec.at("quant_max")},
                      {"has_data", observer != nullptr && observer->has_data()},
                      {"qparams", observer != nullptr ? qparams_json(*observer) : Json(nullptr)}});
    }
    return list;
  }

  const Annotations& annotations_;
  const ObservedGraph* observed_;  // null: only annotations
  std::vector<Json> nodes_;
  std::vector<Group> groups_;
  int declared_count_ = 0;
};

}  // namespace

std::string to_json(const ObserverChoice& choice) {
  Json json = observer_json(choice);
  for (auto item = json.begin(); item != json.end();)
    item = item->is_null() ? json.erase(item) : std::next(item);
  return dump_json(json);
}

std::string annotations_to_json(const Graph& graph, const Annotations& annotations) {
  return Dump(annotations, nullptr).run(graph);
}

std::string annotations_to_json(const ObservedGraph& observed) {
  return Dump(observed.annotations, &observed).run(observed.graph);
}

}  // namespace octet
