// Annotates a graph given as text and prints the result. Common specs are abbreviated: ACT, WEIGHT
// (axis 0), WEIGHT1 (axis 1), WEIGHT_T (per tensor); those of X86: ACT8U, WEIGHT8.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/report.h"
#include "quantizers/xnnpack/quantizer.h"

namespace octet::test {

// Name of a value or node -> its nn_module_stack as in the file.
using ModuleStacks = std::map<std::string, std::string>;
// Node name -> source_fn_stack, which strict exports have.
using Sources = std::map<std::string, std::string>;

struct Annotated {
  std::string text;
  Report report;
};
// Without the abbreviations.
Annotated annotate_plain(const std::string& graph, Quantizer& quantizer,
                         const ModuleStacks& stacks = {}, const Sources& sources = {});
Annotated annotate_text(const std::string& graph, Quantizer& quantizer,
                        const ModuleStacks& stacks = {}, const Sources& sources = {});
// Annotates with the per-channel static config as the global one.
Annotated annotate_text(const std::string& graph, Compat compat = Compat::kNone,
                        const ModuleStacks& stacks = {});

// The row that took all of these nodes, outermost first, as one pattern ("conv_clamp"); "" when one
// of them stayed float or belongs to another row.
std::string fused_as(const Annotated& annotated, const std::vector<std::string>& nodes);

void replace_all(std::string& text, const std::string& from, const std::string& to);

// The text of the Error that the JSON of a declared backend gives, or "no error".
std::string declared_fault(const std::string& json);

// The reason that the report gives for a node, or "".
std::string reason_for(const Report& report, const std::string& node);

}  // namespace octet::test
