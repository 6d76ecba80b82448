// Rotary position embeddings, of heads as they lie inside rows.
#include "backends/onednn/kernels/rotary.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/ops.h"

namespace octet::onednn {

void emit_rotary(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.inputs[0]).shape;
  const Dims& factors = builder.tensor(op.inputs[1]).shape;
  if (shape.back() < 4 || factors.size() > shape.size() || factors.back() != shape.back() ||
      builder.tensor(op.inputs[2]).shape != factors)
    throw Refusal{"cosine and sine are not rows of the input's"};
  const Stored kept = builder.read(op.inputs[0]);
  const bool has_rows = !kept.quant_params.is_integer() && kept.strides.back() == 1;
  const Stored x = has_rows ? kept : to_real(builder, op.inputs[0], row_major(shape));
  const Stored cosine = to_real(builder, op.inputs[1], row_major(factors)),
               sine = to_real(builder, op.inputs[2], row_major(factors));
  Dims strides(shape.size() - factors.size(), 0);
  const Dims rows = row_major(factors);
  for (size_t d = 0; d < factors.size(); ++d)
    strides.push_back(factors[d] == 1 && shape[strides.size()] != 1 ? 0 : rows[d]);
  const Dims order = dense_like(shape, x.strides);
  const Stored y = builder.allocate(shape, {}, order.back() == 1 ? order : row_major(shape));
  builder.add_loop("rotary", rotary_loop(x, strides, y),
                   {x.place, cosine.place, sine.place, y.place});
  define_real(builder, op.outputs[0], y);
}

}  // namespace octet::onednn
