// Which activations are quantized at run time here, and which linears and convolutions multiply
// their integers.
#pragma once

#include "backends/xnnpack/kernels/row_product.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// Accepts a fake_quantize_dynamic whose scales are per tensor or per row, whoever reads its floats.
Verdict check_fake_quantize(const Program& program, const ProgramOp& op);
// Accepts one of these with a single scale: it takes any memory order.
Verdict check_whole_quantize(const Program& program, const ProgramOp& op);
// Accept one of these when all that read it in the program are linears, or convolutions, that can
// multiply integers; after check_activations. (Then its floats are never needed.) The reason of a
// refusal names the op that prevents it. Convolutions want a scale per tensor or per image.
Verdict check_row_quantize(const Program& program, const ProgramOp& op);
Verdict check_pixel_quantize(const Program& program, const ProgramOp& op);
// The accepted fake_quantize_dynamic, of the same segment, whose integers a linear or convolution
// multiplies; null for other ops, which read floats.
const ProgramOp* find_row_quantize(const Program& program, const ProgramOp& op);

// What the kernels need: of an accepted fake_quantize_dynamic; of a linear or convolution that
// multiplies integers.
RowQuantization row_quantization(const Program& program, const ProgramOp& op);
RowProductTerms row_product_terms(const Program& program, const ProgramOp& op);

}  // namespace octet::xnnpack
