// Imports ops that make tensors from sizes and numbers alone.
#include <fmt/format.h>

#include "lowering/import/steps.h"

namespace octet {
namespace {

// Expands one element if the size is not fixed.
void make_filled(Steps& s, const Node& node, double fill) {
  Value* value = node.outputs().front();
  const Sizes sizes = s.sizes_of(*value);
  const bool is_fixed = !is_symbolic(sizes);
  if (is_complex(value->meta->dtype)) return s.refuse("of complex numbers");
  const std::vector<int64_t> shape =
      is_fixed ? static_shape(*value) : std::vector<int64_t>(sizes.size(), 1);
  s.give(s.expand(s.filled(value->meta->dtype, shape, fill), sizes));
}

// start + step * (0, 1, 2, ...). Ranges of fixed size were folded to constants before.
void import_arange(Steps& s, const Node& node) {
  const Value* value = node.outputs().front();
  const DType dtype = value->meta->dtype;
  if (dtype != DType::kInt64 && dtype != DType::kFloat32)
    return s.refuse(fmt::format("of dtype {}", name_of(dtype)));
  int x = s.cast(s.numbers(s.sizes_of(*value)[0]), dtype);
  const auto given = [&](const char* name) {
    return node.find_input(name) != nullptr ? s.cast(s.operand(name), dtype)
                                            : s.number(node.float_or(name, 1), x);
  };
  if (node.find_input("step") != nullptr || node.float_or("step", 1) != 1)
    x = s.mul(x, given("step"));
  const bool has_start = node.find_argument("start") != nullptr;
  if (has_start && (node.find_input("start") != nullptr || node.float_or("start", 0) != 0))
    x = s.add(x, given("start"));
  s.give(x);
}

// Ones where the row and column index are equal.
void import_eye(Steps& s, const Node& node) {
  const Value* value = node.outputs().front();
  const Sizes sizes = s.sizes_of(*value);
  const int row = s.reshape(s.numbers(sizes[0]), {sizes[0], 1}),
            column = s.reshape(s.numbers(sizes[1]), {1, sizes[1]});
  s.give(s.compare("eq", row, column));
}

// Fills a tensor with a number, which may be computed from sizes.
void fill_with(Steps& s, const Node& node, const char* name) {
  const Argument* given = node.find_argument(name);
  const bool is_computed = given != nullptr && given->value_or_null() != nullptr;
  const Attribute fill = is_computed ? Attribute(0.0) : literal_attribute(node, name, 0);
  if (!is_computed && std::get_if<int64_t>(&fill) == nullptr)
    return make_filled(s, node, node.float_or(name, 0));
  const Value* value = node.outputs().front();
  const int number = s.cast(s.operand(name), value->meta->dtype);
  s.give(s.expand(number, s.sizes_of(*value)));
}

void import_zeros(Steps& s, const Node& node) { make_filled(s, node, 0); }
void import_ones(Steps& s, const Node& node) { make_filled(s, node, 1); }
void import_full(Steps& s, const Node& node) { fill_with(s, node, s.word()); }

// Fills self with a number or a 0-dimensional tensor.
void import_fill(Steps& s, const Node&) {
  const int self = s.operand("self");
  s.give(s.expand(s.cast(s.operand("value"), s.dtype(self)), s.sizes(self)));
}

// Converts src to the dtype and shape of self.
void import_copy(Steps& s, const Node&) {
  const int self = s.operand("self");
  s.give(s.expand(s.cast(s.operand("src"), s.dtype(self)), s.sizes(self)));
}

constexpr ImportRow kFilledRows[] = {
    {"aten.arange", import_arange},
    {"aten.eye", import_eye},
    {"aten.zeros", import_zeros},
    {"aten.new_zeros", import_zeros},
    {"aten.zeros_like", import_zeros},
    {"aten.ones", import_ones},
    {"aten.ones_like", import_ones},
    {"aten.full", import_full, "fill_value"},
    {"aten.full_like", import_full, "fill_value"},
    {"aten.new_ones", import_ones},
    {"aten.new_full", import_full, "fill_value"},
    {"aten.empty", import_zeros},
    {"aten.empty_like", import_zeros},
    {"aten.new_empty", import_zeros},
    {"aten.zero", import_zeros},
    {"aten.scalar_tensor", import_full, "s"},
    {"aten.fill", import_fill},
    {"aten.copy", import_copy},
};

}  // namespace

std::span<const ImportRow> filled_import_rows() { return kFilledRows; }

}  // namespace octet
