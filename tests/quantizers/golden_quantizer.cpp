// Reads the descriptors of golden cases.
#include "quantizers/golden_quantizer.h"

#include <set>

namespace octet::test {

namespace {

using Json = nlohmann::ordered_json;

bool is_qat(const Json& config) { return config.value("is_qat", false); }

QuantizationConfig config_from(const Json& config) {
  SymmetricOptions options;
  options.is_per_channel = config.value("is_per_channel", false);
  options.is_dynamic = config.value("is_dynamic", false);
  options.act_qmin = config.value("act_qmin", options.act_qmin);
  options.act_qmax = config.value("act_qmax", options.act_qmax);
  options.weight_qmin = config.value("weight_qmin", options.weight_qmin);
  options.weight_qmax = config.value("weight_qmax", options.weight_qmax);
  return get_symmetric_quantization_config(options);
}

}  // namespace

std::unique_ptr<XNNPACKQuantizer> make_golden_quantizer(const Json& description, Compat compat) {
  if (description.value("type", "") != "xnnpack") return nullptr;
  std::unique_ptr<XNNPACKQuantizer> quantizer = std::make_unique<XNNPACKQuantizer>(compat);
  if (description.contains("global")) {
    if (is_qat(description.at("global"))) return nullptr;
    quantizer->set_global(config_from(description.at("global")));
  }
  for (const Json& row : description.value("module_name", Json::array())) quantizer->set_module_name(row.at(0), config_from(row.at(1)));
  for (const Json& row : description.value("module_type", Json::array())) quantizer->set_module_type(row.at(0), config_from(row.at(1)));
  for (const Json& row : description.value("operator_type", Json::array())) quantizer->set_operator_type(row.at(0), config_from(row.at(1)));
  if (description.contains("filter_exclude_names")) {
    const std::set<std::string> excluded = description.at("filter_exclude_names").get<std::set<std::string>>();
    quantizer->set_filter_function([excluded](const Node& node) { return !excluded.contains(node.name()); });
  }
  return quantizer;
}

}  // namespace octet::test
