#include "tools/cli/quantize/flow_text.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "quantizers/json/place.h"

namespace octet {
namespace {

Json number_or_none(const std::optional<int64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

std::optional<int64_t> find_integer(const Json& json, const char* key) {
  return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<int64_t>());
}

}  // namespace

std::string text_of_flow(const QuantizeFlow& flow) {
  const Json json = {
      {"quantizer", flow.quantizer},
      {"config", flow.config.empty() ? std::string() : load_json(flow.config).dump()},
      {"mode", flow.mode},
      {"fold_bn", flow.fold_bn},
      {"compat", flow.is_compat()},
      {"training_mode", flow.training_mode},
      {"per_tensor", flow.per_tensor},
      {"weight_bits", number_or_none(flow.weight_bits)},
      {"group_size", number_or_none(flow.group_size)},
      {"reduce_range", flow.reduce_range},
      {"learns_ranges", flow.learns_ranges}};
  return json.dump();
}

QuantizeFlow flow_of_text(const std::string& text) {
  const Json json = Json::parse(text);
  QuantizeFlow flow;
  flow.quantizer = json.at("quantizer");
  flow.settings = json.at("config");
  flow.mode = json.at("mode");
  flow.fold_bn = json.at("fold_bn");
  flow.compat = json.at("compat").get<bool>() ? Compat::kTorchao : Compat::kNone;
  flow.training_mode = json.at("training_mode");
  flow.per_tensor = json.at("per_tensor");
  flow.weight_bits = find_integer(json, "weight_bits");
  flow.group_size = find_integer(json, "group_size");
  flow.reduce_range = json.at("reduce_range");
  flow.learns_ranges = json.at("learns_ranges");
  flow.is_training = true;
  return flow;
}

}  // namespace octet
