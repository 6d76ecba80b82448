// Buffers that a program reads quantized and writes dequantized, stored quantized.
#pragma once

#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

//   %r = q(%state) ... dq(%r)        %r = %state (int8) ... dq(%r)
//   %d = dq(%y)                  ->
//   copy_(%state, %d)                copy_(%state, %y)
// A buffer qualifies when all of its users are per-tensor quantize ops and at least one copy_ (or
// mutation output of the program) whose source is dequantized, all with the same scale, zero point,
// range and dtype. Its initial value is quantized too. A read whose quantized value is used after a
// write keeps a copy. Buffers that are written quantized but do not qualify (views of them, other
// scales, other writes) stay float with a note. Runs after convert, before the constants are
// folded. Returns the number of buffers changed.
int fold_quantize_into_mutable_buffers(Graph& graph, Report& report);

}  // namespace octet
