// Quantization with scales that the model computes, and products of such integers. Used by
// tools/onnx/*.cpp only.
#pragma once

#include "tools/onnx/steps.h"

namespace octet {

// Of nodes whose scale is computed by a choose_qparams (lowering/import/dynamic.h).
void convert_dynamic_quantize(OnnxSteps& s);
void convert_dynamic_dequantize(OnnxSteps& s);

// A linear layer of computed integers and a constant weight of int8 as MatMulInteger; false, with
// nothing done, when x and w are not that.
bool give_integer_linear(OnnxSteps& s, const Value* x, const Value* w);

}  // namespace octet
