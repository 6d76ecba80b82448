// Builds the quantizer of a golden case from the "quantizer" entry of its case.json.
#pragma once

#include <memory>

#include <nlohmann/json.hpp>

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/quantizer.h"

namespace octet::test {

// Null when the case uses another quantizer or options that this build lacks (QAT).
std::unique_ptr<Quantizer> make_golden_quantizer(const nlohmann::ordered_json& description,
                                                 Compat compat);

}  // namespace octet::test
