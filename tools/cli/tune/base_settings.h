// Holds the settings that tuning starts from, as rows that it can extend.
#pragma once

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"
#include "quantizers/common/module_filter.h"
#include "tools/cli/quantize/flow.h"

namespace octet {

class BaseSettings {
 public:
  // Reads the rows of --config. If rows can set the quantizer's weights, --per-tensor,
  // --weight-bits and --group-size become settings of all rows and are removed from the flow, where
  // they would override the settings that tuning chooses for an op. Throws the Errors of the
  // quantizer for the file.
  explicit BaseSettings(QuantizeFlow& flow);

  // The settings that override --config: {} or rows.
  const nlohmann::ordered_json& config() const { return config_; }
  // The rows of --config, overridden by config().
  const nlohmann::ordered_json& whole() const { return rows_; }
  // The global options.
  nlohmann::ordered_json global() const;
  // The options of the row for the op.
  nlohmann::ordered_json options_of(const Node& node) const;
  // Whether rows may set how weights are stored, and whether they are per channel.
  bool has_weight_options() const { return has_weight_options_; }
  bool has_per_channel() const { return has_per_channel_; }
  // Whether rows may ask for 16 bits, which torchao lacks.
  bool has_int16() const { return has_weight_options_ && !is_compat_; }
  // Whether tuning writes rows of "effort" (which accuracy passes run where). Default: no.
  bool has_effort() const { return has_effort_; }
  void allow_effort() { has_effort_ = true; }

 private:
  bool has_weight_options_ = false, has_per_channel_ = false, has_effort_ = false;
  bool is_compat_ = false;
  nlohmann::ordered_json rows_, config_ = nlohmann::ordered_json::object();
  ConfigTable table_;  // finds the row of an op; its configurations are unused
};

// Adds the global options to the rows of modules and calls.
nlohmann::ordered_json with_global(nlohmann::ordered_json config);

}  // namespace octet
