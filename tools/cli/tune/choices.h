// What tuning may do about an op, from the mildest to float.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "annotate/compare/diagnosis.h"
#include "tools/cli/compare/suggestion.h"

namespace octet {

// An op of the program that tuning starts from.
struct OpFacts {
  Cause cause = Cause::kNone;  // of its own error
  bool is_static = true;       // --mode static
  bool has_weights = false;    // that are quantized
  bool has_weight_options = false, has_per_channel = false, has_effort = false;  // of BaseSettings
  nlohmann::ordered_json options;  // those that cover it
  // in front of the rounding of its output: weights, and inputs rounded per run; of its error
  double before_share = 0;
};

struct Choice {
  std::string name;  // "in float", as "%conv2d in float"
  bool (*applies)(const OpFacts& op);
  // Options that the op gets instead of its own; null: float. Of `is_effort` its passes.
  nlohmann::ordered_json (*settings)(const OpFacts& op);
  double (*promise)(const OpFacts& op);  // part of the op's error that goes
  Reach reach = Reach::kOp;
  bool is_of_weights = false;  // the op alone, not those that read its output
  bool is_costly = true;       // a backend may take longer
  bool is_effort = false;      // rows of "effort": the program computes as before
};

// The milder ones first: of several for one op the later wins.
std::span<const Choice> tune_choices();

}  // namespace octet
