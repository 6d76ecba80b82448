// Settings that name what the model lacks are errors: most often a misspelling.
#pragma once

#include <string>
#include <vector>

#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/module_filter.h"

namespace octet {

// Looks for each row of the table in the model and its bodies. Throws Error("quantizer", the row's
// place or `quantizer`, "module_name \"blok\" is no module of the model, the closest: block,
// block.fc, head") for the first row without a match. An op type that is an op, though not of this
// model, is none: a file about a backend serves many models.
void check_rows(const ConfigTable& table, const std::string& quantizer, const Graph& model);

// The same for opaque parts: a module or a class must be in the model, an op in the model or
// registered.
void check_opaque_parts(const std::vector<OpaquePart>& parts, const Graph& model);

}  // namespace octet
