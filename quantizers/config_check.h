// Settings that name what the model lacks are errors: most often a misspelling.
#pragma once

#include <string>

#include "quantizers/module_filter.h"

namespace octet {

// Looks for each row of the table in the model and its bodies. Throws Error("quantizer", `quantizer`, "module_name \"blok\" is no module of the model,
// the closest: block, block.fc, head") for the first row without a match. An op type that is an op, though not of this model, is none: a file about a backend
// serves many models.
void check_rows(const ConfigTable& table, const std::string& quantizer, const Graph& model);

}  // namespace octet
