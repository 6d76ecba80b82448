// Suggests settings for --config that reduce an op's error.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/compare/diagnosis.h"
#include "core/graph/graph.h"

namespace octet {

// The ops to change, and the rows of --config that do so. If rounding of a tensor is the cause, the
// ops include its readers, because a quantizer may annotate either side. An op that shares its
// module with others is named by call_index. `config` is null if the cause is in another op.
struct Remedy {
  std::vector<const Node*> ops = {};
  nlohmann::ordered_json config = nullptr;  // rows of --config
};

// value: the op's result or an input, in `subject`. kPattern: also the ops that were probably
// annotated with it as one pattern, such as the convolution before a relu.
enum class Reach { kOp, kPattern };
Remedy find_remedy(const Graph& subject, const Value& value, Cause cause,
                   const nlohmann::ordered_json& setting, Reach reach = Reach::kOp);

// {"module_name": {"features.0": {"act_observer": "min_max"}}}: another observer if the range clips
// values, otherwise the op in float (null).
nlohmann::ordered_json suggest(const Graph& subject, const Value& value, Cause cause);

}  // namespace octet
