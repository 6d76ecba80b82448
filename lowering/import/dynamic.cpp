// Recognizes choose_qparams -> quantize -> dequantize in the op families of torch and torchao.
#include "lowering/import/dynamic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

using Blocks = DynamicForm::Blocks;

// A quantize op, its dequantize op, and the name of the scale in both.
struct Pair {
  const char* quantize;
  const char* dequantize;
  const char* scale;
  Blocks blocks;
};
constexpr Pair kPerTensor = {"quantized_decomposed.quantize_per_tensor",
                             "quantized_decomposed.dequantize_per_tensor", "scale",
                             Blocks::kTensor};
constexpr Pair kPerToken = {"quantized_decomposed.quantize_per_token",
                            "quantized_decomposed.dequantize_per_token", "scales", Blocks::kRows};
constexpr Pair kAffine = {"torchao.quantize_affine", "torchao.dequantize_affine", "scale",
                          Blocks::kGiven};

struct Family {
  const char* choose;
  const Pair& pair;
  const char* mapping;  // mapping of fake_quantize_dynamic; empty: the argument mapping_type says
};
constexpr Family kFamilies[] = {
    {"quantized_decomposed.choose_qparams", kPerTensor, "asymmetric"},
    {"quantized_decomposed.choose_qparams_symmetric", kPerTensor, "symmetric"},
    {"quantized_decomposed.choose_qparams_per_token", kPerToken, "symmetric"},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric", kPerToken, "least_error"},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl", kPerToken, "least_error"},
    {"torchao.choose_qparams_affine", kAffine, ""},
};

const Family* find_family(const Node& origin) {
  const auto found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const Family& family) { return origin.is(family.choose); });
  return found == std::end(kFamilies) ? nullptr : &*found;
}

DType dtype_argument(const Node& node, const char* name, DType fallback) {
  const Argument* argument = node.find_argument(name);
  const DType* dtype = argument == nullptr ? nullptr : argument->find<DType>();
  return dtype == nullptr ? fallback : *dtype;
}

std::string mapping_of(const Node& origin, const Family& family) {
  if (*family.mapping != '\0') return family.mapping;
  const std::string type = text_argument(origin, "mapping_type");
  if (type == "SYMMETRIC") return "symmetric";
  return type == "SYMMETRIC_NO_CLIPPING_ERR" ? "symmetric_unclipped" : "asymmetric";
}

// The attributes of fake_quantize_dynamic that describe the choose_qparams node.
Attributes mapping_attributes(const Node& origin, const Family& family, DType dtype) {
  const IntegerRange bounds = integer_range(dtype);
  int64_t low = origin.int_or("quant_min", bounds.min),
          high = origin.int_or("quant_max", bounds.max);
  double eps = origin.float_or("eps", static_cast<double>(std::numeric_limits<float>::epsilon()));
  int64_t zero_point = dtype == DType::kUInt8 ? 128 : 0;
  if (family.pair.blocks == Blocks::kGiven) {
    eps = origin.float_or("eps", static_cast<double>(std::numeric_limits<float>::min()));
    zero_point = (low + high + 1) / 2;
  } else if (family.pair.blocks == Blocks::kRows && std::string(family.mapping) == "symmetric") {
    low = -127;  // scale = max |x| / 127, where max |x| counts as at least 1e-5
    high = 127;
    eps = 1e-5 / 127;
  }
  Attributes attributes = {{attr::kQuantMin, low},
                           {attr::kQuantMax, high},
                           {attr::kEps, eps},
                           {attr::kMapping, mapping_of(origin, family)}};
  if (mapping_of(origin, family).starts_with("symmetric"))
    attributes[attr::kZeroPoint] = zero_point;
  return attributes;
}

// Why the three nodes cannot become one fake_quantize_dynamic; empty if they can.
std::string find_obstacle(Steps& s, const Node& quantize, const Node& origin, const Family& family,
                          DType dtype) {
  for (const Node* user : quantize.outputs().front()->users())
    if (!user->is(family.pair.dequantize) || find_dynamic_origin(*user) != &origin)
      return "whose integers are used by something other than its dequantize";
  if (origin.find_input("input") != quantize.find_input("input"))
    return "with the range of another tensor";
  const DType input = s.tensor(s.input("input")).dtype;
  if (input != DType::kFloat32) return fmt::format("of {}, want float32", name_of(input));
  if (!is_integer(dtype) || size_of(dtype) > 2) return fmt::format("to {}", name_of(dtype));
  const DType scale = dtype_argument(origin, "scale_dtype", DType::kFloat32);
  if (scale != DType::kFloat32 && scale != DType::kFloat64)
    return fmt::format("with scales of {}", name_of(scale));
  if (family.pair.blocks == Blocks::kGiven &&
      s.sizes_argument(quantize, "block_size") != s.sizes_argument(origin, "block_size"))
    return "in other blocks than those of its range";
  return "";
}

// Whether the range of the quantize node matches that of the scale. Rows with max |x| / 127 fit any
// range of int8.
bool agrees(const Node& quantize, const Attributes& attributes, const Family& family, DType dtype) {
  const IntegerRange bounds = integer_range(dtype);
  const int64_t low = quantize.int_or("quant_min", bounds.min),
                high = quantize.int_or("quant_max", bounds.max);
  const int64_t want_low = std::get<int64_t>(attributes.at(attr::kQuantMin)),
                want_high = std::get<int64_t>(attributes.at(attr::kQuantMax));
  const bool is_reach = family.pair.blocks == Blocks::kRows &&
                        std::get<std::string>(attributes.at(attr::kMapping)) == "symmetric";
  return is_reach ? low <= want_low && high >= want_high : low == want_low && high == want_high;
}

}  // namespace

const Node* find_dynamic_origin(const Node& node) {
  for (const char* name : {"scale", "scales"}) {
    const Value* scale = node.find_input(name);
    const Node* producer = scale == nullptr ? nullptr : scale->producer();
    const Family* family = producer == nullptr ? nullptr : find_family(*producer);
    if (family != nullptr && name == std::string(family->pair.scale) &&
        (node.is(family->pair.quantize) || node.is(family->pair.dequantize)))
      return producer;
  }
  return nullptr;
}

DynamicForm dynamic_form(const Node& origin) {
  const Family& family = *find_family(origin);
  const DType dtype =
      dtype_argument(origin, "target_dtype", dtype_argument(origin, "dtype", DType::kInt8));
  const bool has_range = is_integer(dtype) && size_of(dtype) <= 4;
  return {dtype, family.pair.blocks,
          has_range ? mapping_attributes(origin, family, dtype) : Attributes()};
}

namespace {

// The number of blocks of size `block` in a dimension; -1 means one block. nullopt if `block` does
// not divide the size, or may not for an open size.
std::optional<SizeExpr> count_blocks(const SizeExpr& block, const SizeExpr& size) {
  if (block == SizeExpr(-1) || block == size) return 1;
  if (block == SizeExpr(1)) return size;
  if (!block.is_number() || !size.is_number() || block.number() < 0) return std::nullopt;
  if (block.number() == 0) return size.number() == 0 ? std::optional<SizeExpr>(1) : std::nullopt;
  return size.number() % block.number() == 0
             ? std::optional<SizeExpr>(size.number() / block.number())
             : std::nullopt;
}

}  // namespace

Sizes block_counts(const Steps& s, const Node& node, const Sizes& shape) {
  const Sizes blocks = s.sizes_argument(node, "block_size");
  if (blocks.size() != shape.size())
    s.fail(fmt::format(
        "has a block_size of {} numbers for {} dimensions; give one number per dimension",
        blocks.size(), shape.size()));
  Sizes counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const std::optional<SizeExpr> count = count_blocks(blocks[d], shape[d]);
    if (!count)
      s.fail(fmt::format("has block_size {} in dimension {}, want a divisor of {}",
                         blocks[d].to_text(), d, shape[d].to_text()));
    counts.push_back(*count);
  }
  return counts;
}

void import_dynamic_quantize(Steps& s, const Node& node, const Node& origin) {
  const Family& family = *find_family(origin);
  DynamicForm form = dynamic_form(origin);
  const DType dtype = form.dtype;
  const std::string obstacle = find_obstacle(s, node, origin, family, dtype);
  if (!obstacle.empty()) return s.refuse(obstacle);
  Attributes attributes = std::move(form.mapping);
  if (!agrees(node, attributes, family, dtype))
    return s.refuse("with another range than that of its scale");
  const int x = s.input("input");
  const Sizes shape = s.sizes(x);
  Sizes blocks;
  if (family.pair.blocks == Blocks::kGiven) blocks = block_counts(s, node, shape);
  if (family.pair.blocks == Blocks::kRows) {
    blocks = shape;
    if (!blocks.empty()) blocks.back() = 1;
  }
  const int y = s.op("fake_quantize_dynamic", {x}, shape, DType::kFloat32, std::move(attributes));
  if (family.pair.blocks != Blocks::kTensor) s.set_sizes("blocks", blocks);
  s.alias(node.outputs().front(), y);
}

void import_dynamic_dequantize(Steps& s, const Node& node) {
  const Node* quantize = node.inputs().front()->producer();
  const Node* origin = find_dynamic_origin(node);
  const bool is_pair = quantize != nullptr && quantize->is(find_family(*origin)->pair.quantize) &&
                       find_dynamic_origin(*quantize) == origin;
  if (!is_pair) return s.refuse("of integers that were quantized with another scale");
  const int x = s.input("input");
  Value* result = node.outputs().front();
  if (result->meta && result->meta->dtype != s.tensor(x).dtype) {
    s.emit("cast", {x});
  } else {
    s.alias(result, x);
  }
}

void import_choose_qparams(Steps& s, const Node& node) {
  for (const Value* value : node.outputs())
    for (const Node* user : value->users())
      if (find_dynamic_origin(*user) != &node)
        return s.refuse("whose scale is used by something other than quantize and dequantize");
}

}  // namespace octet
