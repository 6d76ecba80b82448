// The settings that tuning starts from, as rows that it can go on from.
#pragma once

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"
#include "quantizers/common/module_filter.h"
#include "tools/cli/quantize/flow.h"

namespace octet {

class BaseSettings {
 public:
  // The rows of --config. Where the quantizer is one whose weights a row may set, --per-tensor,
  // --weight-bits and --group-size become settings of all rows and leave the flow: there they would
  // win over what tuning sets for an op. Throws Error as the quantizer does for the file.
  explicit BaseSettings(QuantizeFlow& flow);

  // On top of --config: {} or rows.
  const nlohmann::ordered_json& config() const { return config_; }
  // The rows of --config with those on top.
  const nlohmann::ordered_json& whole() const { return rows_; }
  // The options that hold for everything.
  nlohmann::ordered_json global() const;
  // The options of the row that covers the op.
  nlohmann::ordered_json options_of(const Node& node) const;
  // Whether rows may say how weights are stored, and per channel or not.
  bool has_weight_options() const { return has_weight_options_; }
  bool has_per_channel() const { return has_per_channel_; }
  // Whether tuning writes rows of "effort", which accuracy passes run where. The default: no.
  bool has_effort() const { return has_effort_; }
  void allow_effort() { has_effort_ = true; }

 private:
  bool has_weight_options_ = false, has_per_channel_ = false, has_effort_ = false;
  nlohmann::ordered_json rows_, config_ = nlohmann::ordered_json::object();
  ConfigTable table_;  // which row an op has; its configurations say nothing
};

// Rows of modules and calls that include the options of the global one.
nlohmann::ordered_json with_global(nlohmann::ordered_json config);

}  // namespace octet
