// A backend said as a table: rows of patterns and specs, and filters. patterns.h reads one from a
// file; C++ can fill one as well.
#pragma once

#include <string>
#include <vector>

#include "annotate/rules/annotation_rule.h"
#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// Which of a row's dtype configurations a rule is: what the backend can do for one pattern, of
// which a setting chooses one by name.
struct DtypeVariant {
  std::string name = {};   // "": the row has one alone
  bool is_default = true;  // the first of its row, which counts where no setting names another
};

struct DeclaredBackend {
  std::string name;
  // cells name no role: a declared backend has no configurations
  std::vector<AnnotationRule> rules;
  // as for Node::is: share the observer of their first input when that is quantized
  std::vector<std::string> sharing_ops;
  // by rule, where it was said: "npu.json: /patterns/0"; may be shorter
  std::vector<std::string> places = {};
  // by rule; may be shorter. The rules of one row stand together, the default first.
  std::vector<DtypeVariant> variants = {};
};

// Annotates what the rows list, the first row that matches. Rows of set_...: a config leaves the
// nodes to the table, nullopt leaves them float; until one is set everything is left to the table.
// Tensors that observers cannot look at (dtypes other than float32, constants beyond 3.4e15, shapes
// that the groups or the channel axis of their spec do not fit) keep their op float with a reason;
// with compat they are annotated all the same. A config with a dtype_config wants the rows'
// variants of that name; what is matched by rows without it stays float with a reason.
class DeclaredQuantizer : public ConfigurableQuantizer, public RowSetters<DeclaredQuantizer> {
 public:
  explicit DeclaredQuantizer(DeclaredBackend backend, Compat compat = Compat::kNone);

  // Throws Error("quantizer", ...) too for a dtype_config that no row has which matches what the
  // setting covers, with those that they have.
  void check_model(const Graph& model) const override;
  // Throws Error("annotate", row, ...) when a row names a slot that its pattern lacks.
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  // Throws Error("quantizer", the row's place, ...) when a shared spec of a row leads to a tensor
  // without spec or in a circle, and when specs break the constraints of a row (check_limits.h).
  void validate(const Graph& graph, const Annotations& annotations) override;

 private:
  DtypeVariant variant_of(size_t rule) const;
  // The names of all variants of the rule's row.
  std::vector<std::string> names_in_row(size_t rule) const;
  // The config, or none with the reason when the rule is not the variant that it wants.
  ConfigChoice choose_variant(const AnnotationRule& rule, const ConfigChoice& choice) const;
  void check_dtype_config(const RowKey& row, const QuantizationConfig& config,
                          const Graph& model) const;
  // "" when no row of this backend has the name
  std::string place_of(const std::string& rule) const;

  DeclaredBackend backend_;
};

}  // namespace octet
