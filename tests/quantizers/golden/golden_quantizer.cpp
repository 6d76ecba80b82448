// Reads the quantizers of golden cases.
#include "quantizers/golden/golden_quantizer.h"

#include <set>

#include "quantizers/compose/composable_quantizer.h"
#include "quantizers/embedding/quantizer.h"
#include "quantizers/x86/quantizer.h"
#include "quantizers/xnnpack/quantizer.h"

namespace octet::test {

namespace {

using Json = nlohmann::ordered_json;

QuantizationConfig config_from(const Json& config) {
  SymmetricOptions options;
  options.is_per_channel = config.value("is_per_channel", false);
  options.is_dynamic = config.value("is_dynamic", false);
  options.is_qat = config.value("is_qat", false);
  options.act_qmin = config.value("act_qmin", options.act_qmin);
  options.act_qmax = config.value("act_qmax", options.act_qmax);
  options.weight_qmin = config.value("weight_qmin", options.weight_qmin);
  options.weight_qmax = config.value("weight_qmax", options.weight_qmax);
  return get_symmetric_quantization_config(options);
}

std::unique_ptr<Quantizer> make_xnnpack(const Json& description, Compat compat) {
  std::unique_ptr<XNNPACKQuantizer> quantizer = std::make_unique<XNNPACKQuantizer>(compat);
  if (description.contains("global")) {
    quantizer->set_global(config_from(description.at("global")));
  }
  for (const Json& row : description.value("module_name", Json::array()))
    quantizer->set_module_name(row.at(0), config_from(row.at(1)));
  for (const Json& row : description.value("module_type", Json::array()))
    quantizer->set_module_type(row.at(0), config_from(row.at(1)));
  for (const Json& row : description.value("operator_type", Json::array()))
    quantizer->set_operator_type(row.at(0), config_from(row.at(1)));
  if (description.contains("filter_exclude_names")) {
    const std::set<std::string> excluded =
        description.at("filter_exclude_names").get<std::set<std::string>>();
    quantizer->set_filter_function(
        [excluded](const Node& node) { return !excluded.contains(node.name()); });
  }
  return quantizer;
}

// The arguments of torchao's function for X86, the name of a preset, or null.
ConfigTable::Config x86_config_from(const Json& config) {
  if (config.is_null()) return std::nullopt;
  if (config.value("preset", "") == "linear_dynamic_fp16")
    return get_x86_inductor_linear_dynamic_fp16_config();
  X86InductorOptions options;
  options.is_qat = config.value("is_qat", false);
  options.is_dynamic = config.value("is_dynamic", false);
  options.reduce_range = config.value("reduce_range", false);
  return get_default_x86_inductor_quantization_config(options);
}

std::unique_ptr<Quantizer> make_x86(const Json& description, Compat compat) {
  std::unique_ptr<X86InductorQuantizer> quantizer = std::make_unique<X86InductorQuantizer>(compat);
  if (description.contains("global"))
    quantizer->set_global(x86_config_from(description.at("global")));
  for (const Json& row : description.value("function_type", Json::array()))
    quantizer->set_function_type_qconfig(row.at(0), x86_config_from(row.at(1)));
  for (const Json& row : description.value("module_type", Json::array()))
    quantizer->set_module_type_qconfig(row.at(0), x86_config_from(row.at(1)));
  for (const Json& row : description.value("module_name", Json::array()))
    quantizer->set_module_name_qconfig(row.at(0), x86_config_from(row.at(1)));
  return quantizer;
}

// Null when a part is.
std::unique_ptr<Quantizer> make_composable(const Json& description, Compat compat) {
  std::vector<std::unique_ptr<Quantizer>> parts;
  for (const Json& part : description.at("quantizers")) {
    parts.push_back(make_golden_quantizer(part, compat));
    if (!parts.back()) return nullptr;
  }
  return std::make_unique<ComposableQuantizer>(std::move(parts));
}

}  // namespace

std::unique_ptr<Quantizer> make_golden_quantizer(const Json& description, Compat compat) {
  const std::string type = description.value("type", "");
  if (type == "xnnpack") return make_xnnpack(description, compat);
  if (type == "x86") return make_x86(description, compat);
  if (type == "embedding") return std::make_unique<EmbeddingQuantizer>(compat);
  if (type == "composable") return make_composable(description, compat);
  return nullptr;
}

}  // namespace octet::test
