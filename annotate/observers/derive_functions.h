// Derive functions by name: how a DerivedQuantizationSpec gets scale and zero point from other
// observers. find_derive_fn (observer.h) looks here.
#pragma once

#include <string>
#include <vector>

#include "annotate/annotation/quant_spec.h"

namespace octet {

// The built-in ones, then those that were registered.
std::vector<std::string> derive_fn_names();

// Makes a function of your own known by name, for specs and JSON ("derive"). Throws
// Error("prepare", ...) when the name is taken or there is no function. Not while other threads
// read specs.
void register_derive_fn(const std::string& name, DeriveQParamsFn derive);

// A spec that applies the function of that name to the edges that it is later given: an int32 bias
// with "product_of_scales" along channels of axis 0. Throws Error("annotate", ...) naming the known
// ones when there is no such function.
DerivedQuantizationSpec derived_by(const std::string& name, DType dtype = DType::kInt32,
                                   std::optional<int> ch_axis = 0);

}  // namespace octet
