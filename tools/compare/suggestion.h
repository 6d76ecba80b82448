// What to try about an op's error, as settings that `--config` takes.
#pragma once

#include <nlohmann/json.hpp>

#include "annotate/compare/diagnosis.h"
#include "core/graph/graph.h"

namespace octet {

// {"module_name": {"features.0": {"act_observer": "min_max"}}}: another observer where the range
// cuts, else the op in float; where the rounding of a tensor is the cause, for the ops that read it
// too, since a quantizer may annotate either side. An op that is not alone in its module is named
// by call_index. Null when there is nothing to be done about the op itself. value: of `subject`,
// the op's result or an input.
nlohmann::ordered_json suggest(const Graph& subject, const Value& value, Cause cause);

}  // namespace octet
