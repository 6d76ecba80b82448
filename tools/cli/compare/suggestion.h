// What to try about an op's error, as settings that `--config` takes.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/compare/diagnosis.h"
#include "core/graph/graph.h"

namespace octet {

// Ops with a setting of their own. Where the rounding of a tensor is the cause, those that read it
// are among them, since a quantizer may annotate either side. An op that is not alone in its module
// is named by call_index. Null for causes that are not the op's own.
struct Remedy {
  std::vector<const Node*> ops = {};
  nlohmann::ordered_json config = nullptr;  // rows of --config
};

// value: of `subject`, the op's result or an input. kPattern: what the op was probably annotated
// with as one pattern, too: the convolution in front of a relu, say.
enum class Reach { kOp, kPattern };
Remedy find_remedy(const Graph& subject, const Value& value, Cause cause,
                   const nlohmann::ordered_json& setting, Reach reach = Reach::kOp);

// {"module_name": {"features.0": {"act_observer": "min_max"}}}: another observer where the range
// cuts, else the op in float (null).
nlohmann::ordered_json suggest(const Graph& subject, const Value& value, Cause cause);

}  // namespace octet
