#include "tools/cli/tune/base_settings.h"

#include "quantizers/json/place.h"
#include "tools/cli/tune/search.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr RowKind kTables[] = {RowKind::kOpType, RowKind::kModuleType, RowKind::kModuleNameRegex,
                               RowKind::kModuleName};

bool is_symmetric(const std::string& quantizer) {
  return quantizer == "xnnpack" || quantizer == "qnnpack";
}

// Removes the command's options from the flow and returns them.
Json taken_options(QuantizeFlow& flow) {
  Json options = Json::object();
  if (flow.per_tensor && is_symmetric(flow.quantizer)) {
    options["is_per_channel"] = false;
    flow.per_tensor = false;
  }
  if (flow.weight_bits) options["weight_bits"] = *flow.weight_bits;
  if (flow.activation_bits) options["activation_bits"] = *flow.activation_bits;
  if (flow.group_size) options["group_size"] = *flow.group_size;
  flow.weight_bits.reset();
  flow.activation_bits.reset();
  flow.group_size.reset();
  return options;
}

// Calls take(RowKey, value) for each row of settings except the global one.
template <typename Rows, typename Take>
void for_each_row(Rows& rows, const Take& take) {
  for (const RowKind kind : kTables) {
    const auto table = rows.find(name_of(kind));
    if (table == rows.end() || !table->is_object()) continue;
    for (const auto& [name, value] : table->items()) take({kind, name}, value);
  }
  const auto calls = rows.find(name_of(RowKind::kCallIndex));
  if (calls == rows.end() || !calls->is_object()) return;
  for (const auto& [module, ops] : calls->items())
    for (const auto& [op, indices] : ops.items())
      for (const auto& [index, value] : indices.items())
        take({RowKind::kCallIndex, {}, {module, op, std::stoll(index)}}, value);
}

}  // namespace

BaseSettings::BaseSettings(QuantizeFlow& flow) : rows_(Json::object()) {
  if (!flow.config.empty()) {
    quantizer_of(flow);  // reports errors in the file
    rows_ = load_settings(flow.config);
  }
  has_per_channel_ = is_symmetric(flow.quantizer);
  has_weight_options_ = has_per_channel_ || flow.quantizer == "x86";
  is_compat_ = flow.is_compat();
  const Json options = has_weight_options_ ? taken_options(flow) : Json::object();
  if (!options.empty()) {
    const auto add = [&](const RowKey&, Json& row) {
      if (row.is_object()) row = merged(row, options);
    };
    if (!rows_.contains("global") || rows_.at("global").is_object())
      rows_["global"] = merged(rows_.value("global", Json::object()), options);
    for_each_row(rows_, add);
    config_ = rows_;
    config_.erase("opaque");  // the quantizer reads them from the file
    config_.erase("passes");
    config_.erase("effort");
  }
  for_each_row(rows_, [&](const RowKey& row, Json&) { table_.set(row, QuantizationConfig()); });
}

Json BaseSettings::global() const {
  const auto found = rows_.find("global");
  return found == rows_.end() || !found->is_object() ? Json::object() : Json(*found);
}

Json BaseSettings::options_of(const Node& node) const {
  const std::optional<RowKey> key = table_.row_of(node);
  Json options = global();
  if (!key) return options;
  for_each_row(rows_, [&](const RowKey& row, const Json& value) {
    if (row == *key) options = value.is_object() ? value : Json::object();
  });
  return options;
}

Json with_global(Json config) {
  const auto global = config.find("global");
  if (global == config.end() || !global->is_object()) return config;
  const Json under = *global;
  for_each_row(config, [&](const RowKey&, Json& row) {
    if (row.is_object()) row = merged(under, row);
  });
  return config;
}

}  // namespace octet
