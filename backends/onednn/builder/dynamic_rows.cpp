// Adds the loops of kernels/rows.h with the places of their arguments.
#include "backends/onednn/builder/dynamic_rows.h"

#include "backends/onednn/kernels/rows.h"

namespace octet::onednn {

DynamicRows add_quantize_rows(SegmentBuilder& builder, Place x, int64_t rows, int64_t width,
                              int64_t rows_per_block, const DynamicMapping& mapping) {
  const int64_t blocks = rows / rows_per_block;
  const DynamicRows result{
      builder.allocate({rows, width}, {ElementType::u8, 1, 0}, {width, 1}).place,
      builder.allocate({blocks}, {}, {1}).place,
      builder.allocate({blocks}, {ElementType::s32, 1, 0}, {1}).place,
      rows,
      width,
      rows_per_block};
  builder.add_loop("quantize at run time",
                   quantize_rows_loop({rows, width, rows_per_block}, mapping),
                   {x, result.values, result.scale, result.zero_point});
  return result;
}

void add_dequantize_rows(SegmentBuilder& builder, const DynamicRows& x, Place y) {
  builder.add_loop("dequantize", dequantize_rows_loop({x.rows, x.width, x.rows_per_block}),
                   {x.values, x.scale, x.zero_point, y});
}

void add_scale_rows(SegmentBuilder& builder, const DynamicRows& x, Place sums,
                    const ColumnTerms& columns, const Clamp& clamp, RowFinish finish,
                    Place operand) {
  const int64_t width = static_cast<int64_t>(columns.sums.size());
  Loop loop = scale_rows_loop({x.rows, width, x.rows_per_block}, clamp, finish);
  const Place column_sums = builder.add_integers(columns.sums).place,
              column_scale = builder.add_floats(columns.scale).place,
              bias = builder.add_floats(columns.bias).place;
  std::vector<Place> arguments = {sums, x.scale, x.zero_point, column_sums, column_scale, bias};
  if (finish.operand != RowOperand::kNone) arguments.push_back(operand);
  builder.add_loop("scale", std::move(loop), std::move(arguments));
}

}  // namespace octet::onednn
