// Tensors that an op makes of nothing but sizes and numbers.
#include <fmt/format.h>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// Of a size that is not fixed: one element, expanded.
void make_filled(Importer& importer, const Node& node, double fill) {
  Value* value = node.outputs().front();
  const Sizes sizes = importer.sizes_of(*value);
  const bool is_fixed = !is_symbolic(sizes);
  if (is_complex(value->meta->dtype)) return importer.refuse(node, "of complex numbers");
  Steps s(importer, node);
  const std::vector<int64_t> shape =
      is_fixed ? static_shape(*value) : std::vector<int64_t>(sizes.size(), 1);
  s.give(s.expand(s.filled(value->meta->dtype, shape, fill), sizes));
}

// Numbers up to a size: the first ones of a constant with as many as the size can be, times the
// step, from the start on. Those of a fixed size are folded before.
void import_arange(Importer& importer, const Node& node) {
  constexpr int64_t kMost = 1 << 20;
  const Value* value = node.outputs().front();
  const Sizes sizes = importer.sizes_of(*value);
  const int64_t count = importer.greatest(sizes[0]);
  const DType dtype = value->meta->dtype;
  if (count < 0 || count > kMost)
    return importer.refuse(
        node, fmt::format("of {} numbers, want a symbol with a greatest size of at most {}",
                          sizes[0].to_text(), kMost));
  if (dtype != DType::kInt64 && dtype != DType::kFloat32)
    return importer.refuse(node, fmt::format("of dtype {}", name_of(dtype)));
  Steps s(importer, node);
  const Tensor data = Tensor::zeros(dtype, {count});
  for (int64_t i = 0; i < count; ++i)
    dtype == DType::kInt64 ? static_cast<void>(data.data<int64_t>()[i] = i)
                           : static_cast<void>(data.data<float>()[i] = static_cast<float>(i));
  int x = s.slice(importer.add_constant(node.name() + "_numbers", data), 0, 0, sizes[0]);
  const double start = node.float_or("start", 0), step = node.float_or("step", 1);
  if (step != 1) x = s.mul(x, s.number(step, x));
  if (start != 0) x = s.add(x, s.number(start, x));
  s.give(x);
}

void import_zeros(Importer& importer, const Node& node) { make_filled(importer, node, 0); }
void import_ones(Importer& importer, const Node& node) { make_filled(importer, node, 1); }
void import_full(Importer& importer, const Node& node) {
  const Attribute fill = literal_attribute(node, "fill_value", 0);
  if (std::get_if<int64_t>(&fill) != nullptr) {  // a double would round it
    Steps s(importer, node);
    const Value* value = node.outputs().front();
    const int number = s.cast(s.operand("fill_value"), value->meta->dtype);
    return s.give(s.expand(number, importer.sizes_of(*value)));
  }
  make_filled(importer, node, node.float_or("fill_value", 0));
}

void import_scalar(Importer& importer, const Node& node) {
  make_filled(importer, node, node.float_or("s", 0));
}

// The value, a number or a tensor without dimensions, in every element of self.
void import_fill(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int self = s.operand("self");
  s.give(s.expand(s.cast(s.operand("value"), s.dtype(self)), s.sizes(self)));
}

// src, in the dtype and shape of self.
void import_copy(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int self = s.operand("self");
  s.give(s.expand(s.cast(s.operand("src"), s.dtype(self)), s.sizes(self)));
}

constexpr ImportRow kFilledRows[] = {
    {"aten.arange",        import_arange},
    {"aten.zeros",         import_zeros },
    {"aten.new_zeros",     import_zeros },
    {"aten.zeros_like",    import_zeros },
    {"aten.ones",          import_ones  },
    {"aten.ones_like",     import_ones  },
    {"aten.full",          import_full  },
    {"aten.full_like",     import_full  },
    {"aten.new_ones",      import_ones  },
    {"aten.new_full",      import_full  },
    {"aten.empty",         import_zeros },
    {"aten.empty_like",    import_zeros },
    {"aten.new_empty",     import_zeros },
    {"aten.zero",          import_zeros },
    {"aten.scalar_tensor", import_scalar},
    {"aten.fill",          import_fill  },
    {"aten.copy",          import_copy  },
};

}  // namespace

std::span<const ImportRow> filled_import_rows() { return kFilledRows; }

}  // namespace octet
