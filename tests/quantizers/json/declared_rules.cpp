// Translates the oracle's rules one by one.
#include "quantizers/json/declared_rules.h"

#include <stdexcept>

#include "support/rule_quantizer.h"

namespace octet::test {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxSlots = 4;

// "$arg1" -> "a1".
std::string slot_of(const std::string& reference) {
  if (!reference.starts_with("$arg"))
    throw std::runtime_error("a rule refers to " + reference + ", which no slot stands for");
  return "a" + reference.substr(4);
}

Json source(const Json& key) {
  return key.is_string() ? Json{{"node", slot_of(key)}} : Json{{"edge", slot_of(key.at(0))}};
}

void copy(const Json& from, Json& to, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (from.contains(key) && !from.at(key).is_null()) to[key] = from.at(key);
}

Json cell(const Json& spec) {
  if (spec.is_null()) return nullptr;
  const std::string kind = spec.at("kind");
  if (kind == "shared")
    return {{"same_as", source(spec.contains("edge") ? spec.at("edge") : spec.at("node"))}};
  Json result = Json::object();
  copy(spec, result, {"dtype", "qscheme", "ch_axis", "quant_min", "quant_max", "is_dynamic"});
  if (kind == "fixed") {
    result["fixed"] = {{"scale", spec.at("scale")}, {"zero_point", spec.at("zero_point")}};
  } else if (kind == "derived") {
    for (const Json& from : spec.at("from"))
      result["derived_from"].push_back(source(from).at("edge"));
    result["derive"] = spec.at("fn") == "sum_scale" ? "sum_of_scales" : "product_of_scales";
  } else {
    result["observer"] = {{"name", *find_observer_name(spec.at("observer"))}};
    if (spec.contains("observer_args")) result["observer"].update(spec.at("observer_args"));
  }
  return result;
}

Json row(const Json& rule) {
  std::string pattern = rule.at("target").get<std::string>() + "(a0";
  for (size_t i = 1; i < kMaxSlots; ++i) pattern += ", a" + std::to_string(i) + "?";
  Json result = {{"pattern", pattern + ")"}};
  if (rule.contains("inputs"))
    for (const auto& [index, spec] : rule.at("inputs").items())
      result["inputs"]["a" + index] = cell(spec);
  if (rule.contains("output")) result["output"] = cell(rule.at("output"));
  copy(rule, result, {"allow_implicit_sharing"});
  return result;
}

// The innermost module of the n-th call of an op.
std::string module_of(const Json& nodes, const std::string& target, int n) {
  for (const Json& node : nodes)
    if (node.at("target") == "torch.ops." + target && n-- == 0)
      return node.at("nn_module_stack").back().at(1);
  throw std::runtime_error("no such call of " + target);
}

}  // namespace

std::string declared_from_rules(const Json& rules, const Json& nodes) {
  Json parts = Json::array();
  Json all = {{"name", "rules"}, {"patterns", Json::array()}};
  for (const Json& rule : rules) {
    if (!rule.contains("nth")) {
      all["patterns"].push_back(row(rule));
      continue;
    }
    const std::string module = module_of(nodes, rule.at("target"), rule.at("nth"));
    parts.push_back({{"patterns", Json::array({row(rule)})},
                     {"global", nullptr},
                     {"module_name", {{module, Json::object()}}}});
  }
  if (!all["patterns"].empty()) parts.push_back(all);
  return parts.size() == 1 ? parts.front().dump() : Json{{"compose", parts}}.dump();
}

}  // namespace octet::test
