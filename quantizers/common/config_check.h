// Rejects settings that name something the model lacks, most often a misspelling.
#pragma once

#include <string>
#include <vector>

#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/module_filter.h"

namespace octet {

// Looks for each row of the table in the model and its bodies. Throws Error("quantizer", the row's
// place or `quantizer`, ...) for the first row without a match, and lists the closest names. An op
// type that exists but does not occur in this model is accepted, since one file about a backend
// serves many models.
void check_rows(const ConfigTable& table, const std::string& quantizer, const Graph& model);

// Checks opaque parts: a module or class must be in the model, an op in the model or
// registered.
void check_opaque_parts(const std::vector<OpaquePart>& parts, const Graph& model);

}  // namespace octet
