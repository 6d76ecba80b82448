// The oracle's custom rules as a declared backend in JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace octet::test {

// rules: of a case's quantizer (see support/rule_quantizer.h); nodes: those of its annotated.json,
// where rules for the n-th call of an op find the module of that call. Such rules become quantizers
// of their own, composed, with a filter.
std::string declared_from_rules(const nlohmann::ordered_json& rules,
                                const nlohmann::ordered_json& nodes);

}  // namespace octet::test
