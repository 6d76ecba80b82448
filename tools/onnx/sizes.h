// Open sizes: by which name ONNX calls them, and how a model computes what is made of them. Used by
// tools/onnx/*.cpp only.
#pragma once

#include <string>

#include "lowering/program/size_expr.h"
#include "tools/onnx/exporter.h"

namespace octet {

// "s0", "2*s0"; torch's own expression where it is no formula of sizes.
std::string size_text(const Dim& dim);

// A formula of the sizes of the model's inputs, as i64 of one element. Throws Error when an input
// does not give a symbol.
std::string size_tensor(OnnxExporter& exporter, const SizeExpr& size, const std::string& subject);
std::string size_tensor(OnnxExporter& exporter, const Value& symbol);

}  // namespace octet
