#include "tools/python/torch/settings.h"

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

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace octet::python
