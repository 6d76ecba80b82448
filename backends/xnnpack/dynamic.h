// Decides which activations are quantized at run time, and which linears and convolutions multiply
// their integers.
#pragma once

#include "backends/xnnpack/kernels/row_product.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// Accepts a fake_quantize_dynamic with scales per tensor or per row, whichever ops read its floats.
Verdict check_fake_quantize(const Program& program, const ProgramOp& op);
// Accepts a fake_quantize_dynamic with a single scale, in any memory order.
Verdict check_whole_quantize(const Program& program, const ProgramOp& op);
// Accept a fake_quantize_dynamic that is read only by linears (row) or convolutions (pixel) that
// can multiply integers, so that its floats are never needed; call after check_activations. A
// refusal names the op that prevents it. Convolutions require a scale per tensor or per image.
Verdict check_row_quantize(const Program& program, const ProgramOp& op);
Verdict check_pixel_quantize(const Program& program, const ProgramOp& op);
// Finds the accepted fake_quantize_dynamic in the same segment whose integers a linear or
// convolution multiplies; null for ops that read floats.
const ProgramOp* find_row_quantize(const Program& program, const ProgramOp& op);

// The parameters of the kernels: of an accepted fake_quantize_dynamic, and of a linear or
// convolution that multiplies integers.
RowQuantization row_quantization(const Program& program, const ProgramOp& op);
RowProductTerms row_product_terms(const Program& program, const ProgramOp& op);

}  // namespace octet::xnnpack
