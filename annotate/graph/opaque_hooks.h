// Hooks of opaque parts by class of module: a library registers them once, files name the class.
//
//   register_opaque_hooks("my.Lstm", {observe_lstm, quantize_lstm});
//
//   "opaque": [{"module_type": "my.Lstm"}]
#pragma once

#include <functional>
#include <string>

#include "annotate/graph/opaque_parts.h"

namespace octet {

// The pair of hooks of an OpaquePart; either may be absent.
struct OpaqueHooks {
  std::function<void(Graph& graph, Island& island)> float_to_observed = {};
  std::function<void(ObservedGraph& observed, Island& island)> observed_to_quantized = {};
};

// For the opaque parts with this module_type that have no hooks of their own. "torch.nn.LSTM" and
// "torch.nn.modules.rnn.LSTM" are one class. Throws Error("quantizer", ...) when the class is empty
// or has hooks already, and when both hooks are absent. Not while other threads prepare.
void register_opaque_hooks(const std::string& module_type, OpaqueHooks hooks);

// The part with the hooks that are registered for its class, if there are any and it has none.
OpaquePart with_registered_hooks(OpaquePart part);

}  // namespace octet
