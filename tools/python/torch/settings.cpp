#include "tools/python/torch/settings.h"

#include <filesystem>

namespace nb = nanobind;

namespace octet::python {

QuantizeFlow flow_of(const nb::dict& settings) {
  QuantizeFlow flow;
  take(settings, "model", flow.model);
  take(settings, "quantizer", flow.quantizer);
  take(settings, "config", flow.config);
  take(settings, "mode", flow.mode);
  take(settings, "fold_bn", flow.fold_bn);
  take(settings, "training_mode", flow.training_mode);
  take(settings, "recorded", flow.recorded);
  take(settings, "per_tensor", flow.per_tensor);
  take(settings, "weight_bits", flow.weight_bits);
  take(settings, "group_size", flow.group_size);
  take(settings, "reduce_range", flow.reduce_range);
  std::string compat;
  take(settings, "compat", compat);
  if (compat == "torchao") flow.compat = Compat::kTorchao;
  return flow;
}

std::vector<std::string> sources_of(const nb::dict& settings) {
  std::vector<std::string> sources;
  for (const auto& [name, value] : settings) {
    std::string text;
    std::error_code failure;
    if (nb::try_cast(value, text) && std::filesystem::is_regular_file(text, failure))
      sources.push_back(std::filesystem::absolute(text).string());
  }
  return sources;
}

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace octet::python
