// A backend said as a table: rows of patterns and specs, and filters. patterns.h reads one from a
// file; C++ can fill one as well.
#pragma once

#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/rules/annotation_rule.h"
#include "quantizers/common/compat.h"
#include "quantizers/common/module_filter.h"

namespace octet {

struct DeclaredBackend {
  std::string name;
  // cells name no role: a declared backend has no configurations
  std::vector<AnnotationRule> rules;
  // as for Node::is: share the observer of their first input when that is quantized
  std::vector<std::string> sharing_ops;
  // by rule, where it was said: "npu.json: /patterns/0"; may be shorter
  std::vector<std::string> places = {};
};

// Annotates what the rows list, the first row that matches. Rows of set_...: a config leaves the
// nodes to the table, nullopt leaves them float; until one is set everything is left to the table.
// Tensors that observers cannot look at (dtypes other than float32, constants beyond 3.4e15, shapes
// that the groups or the channel axis of their spec do not fit) keep their op float with a reason;
// with compat they are annotated all the same.
class DeclaredQuantizer : public Quantizer {
 public:
  explicit DeclaredQuantizer(DeclaredBackend backend, Compat compat = Compat::kNone);

  DeclaredQuantizer& set_global(std::optional<QuantizationConfig> config);
  DeclaredQuantizer& set_module_name(const std::string& name,
                                     std::optional<QuantizationConfig> config);
  DeclaredQuantizer& set_module_type(const std::string& type,
                                     std::optional<QuantizationConfig> config);
  DeclaredQuantizer& set_operator_type(const std::string& op,
                                       std::optional<QuantizationConfig> config);
  // The whole path of a module matches; and the n-th call of an op. Both throw Error in compat.
  DeclaredQuantizer& set_module_name_regex(const std::string& regex,
                                           std::optional<QuantizationConfig> config);
  DeclaredQuantizer& set_call_index(const CallIndex& call,
                                    std::optional<QuantizationConfig> config);
  // What the setters have filled in; for where each row was said.
  ConfigTable& rows() { return filters_; }

  std::string name() const override { return backend_.name; }
  void check_model(const Graph& model) const override;
  // Throws Error("annotate", row, ...) when a row names a slot that its pattern lacks.
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  // Throws Error("quantizer", the row's place, ...) when a shared spec of a row leads to a tensor
  // without spec or in a circle, and when specs break the constraints of a row (check_limits.h).
  void validate(const Graph& graph, const Annotations& annotations) override;

 private:
  // "" when no row of this backend has the name
  std::string place_of(const std::string& rule) const;

  DeclaredBackend backend_;
  Compat compat_;
  ConfigTable filters_;
};

}  // namespace octet
