// Annotates by a table that describes a backend: rows of patterns and specs, filled by C++ code or
// read from a file (quantizers/json/patterns.h).
#pragma once

#include <string>
#include <vector>

#include "annotate/rules/annotation_rule.h"
#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// The dtype configuration that a rule implements. A backend may support several for one pattern;
// settings choose one by name.
struct DtypeVariant {
  std::string name = {};   // "": the only one of its row
  bool is_default = true;  // the first of its row, used when no setting names another
};

struct DeclaredBackend {
  std::string name;
  // their specs name no role, as a declared backend has no configurations
  std::vector<AnnotationRule> rules;
  // in the form of Node::is: these share the observer of their first input when it is quantized
  std::vector<std::string> sharing_ops;
  // per rule: where it is defined, "npu.json: /patterns/0"; may be shorter
  std::vector<std::string> places = {};
  // per rule; may be shorter. The rules of one row are adjacent, the default first.
  std::vector<DtypeVariant> variants = {};
};

// Annotates ops by the first row that matches. In the settings, a config leaves nodes to the table
// and nullopt leaves them float; until a row is set, the table decides everything. Tensors that
// observers do not support (dtypes other than float32, constants beyond 3.4e15, shapes that the
// groups or the channel axis of their spec do not fit) leave their op float with a reason, except
// in compat. A config with a dtype_config selects the variants of that name; ops whose rows lack it
// stay float with a reason.
class DeclaredQuantizer : public ConfigurableQuantizer, public RowSetters<DeclaredQuantizer> {
 public:
  explicit DeclaredQuantizer(DeclaredBackend backend, Compat compat = Compat::kNone);

  // Also throws Error("quantizer", ...) for a dtype_config that no row has for the ops that the
  // setting covers, and lists those that exist.
  void check_model(const Graph& model) const override;
  // Throws Error("annotate", row, ...) when a row names a slot that its pattern lacks.
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  // Throws Error("quantizer", the row's place, ...) when a shared spec of a row refers to a tensor
  // without spec or forms a cycle, and when specs violate the constraints of a row
  // (check_limits.h).
  void validate(const Graph& graph, const Annotations& annotations) override;

 private:
  DtypeVariant variant_of(size_t rule) const;
  // The names of all variants in the rule's row.
  std::vector<std::string> names_in_row(size_t rule) const;
  // Returns `choice`, or none with a reason when the rule is not the variant that it selects.
  ConfigChoice choose_variant(const AnnotationRule& rule, const ConfigChoice& choice) const;
  void check_dtype_config(const RowKey& row, const QuantizationConfig& config,
                          const Graph& model) const;
  // "" when no row of this backend has the name
  std::string place_of(const std::string& rule) const;

  DeclaredBackend backend_;
};

}  // namespace octet
