// What a report page opens with: whether the quantized program is good, and what to do if not.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace octet {

// {"level", "text", "ops": [{"name", "text"}...], "next"} as page.schema.json describes. data: of
// the page. Without errors of ops, the ops are chosen by what is known of their ranges and weights.
nlohmann::ordered_json verdict_of(const nlohmann::ordered_json& data);

}  // namespace octet
