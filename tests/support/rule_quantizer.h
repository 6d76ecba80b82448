// A Quantizer that follows a JSON list of rules, which the custom cases of the oracle have.
//
//   {"target": "aten.conv2d.default", "nth": k, "name": "conv2d_1", "user_target": the only user's
//       target,
//    "inputs": {"0": SPEC, "1.0": SPEC (element of a list argument)}, "output": SPEC,
//        "allow_implicit_sharing": bool}
// Rules run in order over all nodes; a node that has an annotation is left alone. SPEC has "kind"
// spec, shared, fixed or derived; references are "$self", "$argK" (what argument K is) and "%name".
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "annotate/annotation/quantizer.h"

namespace octet::test {

// Octet's name for an observer class of torchao ("HistogramObserver" -> "histogram"); null when
// there is none.
const std::string* find_observer_name(const std::string& peer_class);

class RuleQuantizer : public Quantizer {
 public:
  explicit RuleQuantizer(nlohmann::ordered_json rules) : rules_(std::move(rules)) {}
  std::string name() const override { return "rules"; }
  // Throws Error("annotate", ...) when a reference does not exist.
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  nlohmann::ordered_json rules_;
};

}  // namespace octet::test
