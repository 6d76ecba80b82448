// The oracle's custom rules as a declared backend in JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace octet::test {

// rules: the rules of a case's quantizer (support/rule_quantizer.h). nodes: the nodes of its
// annotated.json, where rules for the n-th call of an op find the module of that call. Each such
// rule becomes a separate quantizer with a filter; these are composed.
std::string declared_from_rules(const nlohmann::ordered_json& rules,
                                const nlohmann::ordered_json& nodes);

}  // namespace octet::test
