#include "tools/onnx/quantized.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/shape.h"
#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

// Numbers of an argument: literals, or a constant tensor. Nothing when they are computed.
std::optional<std::vector<double>> numbers_of(const Node& node, const char* name) {
  if (const Value* value = node.find_input(name)) {
    const Tensor* constant = value->graph().find_constant(value);
    if (constant == nullptr) return std::nullopt;
    return constant_values(*constant);
  }
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr || argument->is_none()) return std::vector<double>{};
  return std::vector<double>{node.float_or(name, 0)};
}

const char* one_of(const Node& node, const char* singular, const char* plural) {
  return node.find_argument(singular) != nullptr ? singular : plural;
}

DType integer_dtype(const Node& node) {
  const Value* integers = is_dequantize(node) ? node.find_input("input") : node.outputs().front();
  return OnnxSteps::dtype(integers);
}

// How many blocks each dimension has.
std::optional<std::vector<int64_t>> block_counts_of(const Node& node,
                                                    const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes = node.ints_or("block_size", {});
  if (node.find_argument("group_size") != nullptr) sizes = {1, node.int_or("group_size", 1)};
  if (sizes.size() != shape.size()) return std::nullopt;
  std::vector<int64_t> counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t size = sizes[d] == -1 ? shape[d] : std::min(sizes[d], shape[d]);
    if (size <= 0 || shape[d] % size != 0) return std::nullopt;
    counts.push_back(shape[d] / size);
  }
  return counts;
}

// The form of scales for blocks: one, along an axis, or in blocks along one axis. False: none.
bool set_form(OnnxQParams& qparams, const std::vector<int64_t>& counts,
              const std::vector<int64_t>& shape) {
  std::vector<size_t> cut, blocked;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (counts[d] > 1) cut.push_back(d);
    if (counts[d] != shape[d]) blocked.push_back(d);
  }
  if (cut.empty()) return true;
  if (cut.size() == 1 && counts[cut[0]] == shape[cut[0]]) {
    qparams.axis = static_cast<int64_t>(cut[0]);
    qparams.shape = {counts[cut[0]]};
    return true;
  }
  if (blocked.size() != 1) return false;
  qparams.axis = static_cast<int64_t>(blocked[0]);
  qparams.shape = counts;
  qparams.block = shape[blocked[0]] / counts[blocked[0]];
  return true;
}

// Where the node's scales stand; false, with `why`, when ONNX has no such form.
bool place_scales(const Node& node, OnnxQParams& qparams, std::string& why) {
  const bool has_blocks =
      node.find_argument("block_size") != nullptr || node.find_argument("group_size") != nullptr;
  const TensorMeta& meta = OnnxSteps::meta(node.find_input("input"));
  if (has_blocks) {
    const std::optional<std::vector<int64_t>> counts =
        meta.is_static() ? block_counts_of(node, meta.shape()) : std::nullopt;
    if (counts && set_form(qparams, *counts, meta.shape()) &&
        static_cast<int64_t>(qparams.scale.size()) ==
            (qparams.shape.empty() ? 1 : product(qparams.shape)))
      return true;
    why = "in blocks of more than one dimension";
    return false;
  }
  if (node.find_argument("scales") == nullptr) return true;
  const std::optional<size_t> axis = find_dim(node.int_or("axis", 0), meta.sizes.size());
  const int64_t count = static_cast<int64_t>(qparams.scale.size());
  if (!axis || meta.sizes[*axis].is_symbolic() || meta.sizes[*axis].value != count) {
    why = fmt::format("with {} scales along a dimension that has not as many elements", count);
    return false;
  }
  qparams.axis = static_cast<int64_t>(*axis);
  qparams.shape = {count};
  return true;
}

template <typename T>
Tensor integers(const std::vector<int64_t>& values, DType dtype,
                const std::vector<int64_t>& shape) {
  return Tensor::from<T>(dtype, shape, std::vector<T>(values.begin(), values.end()));
}

Tensor zero_points(const OnnxQParams& qparams) {
  const std::vector<int64_t>& values = qparams.zero_point;
  switch (qparams.dtype) {
    case DType::kUInt8:
      return integers<uint8_t>(values, qparams.dtype, qparams.shape);
    case DType::kInt16:
      return integers<int16_t>(values, qparams.dtype, qparams.shape);
    case DType::kUInt16:
      return integers<uint16_t>(values, qparams.dtype, qparams.shape);
    default:
      return integers<int8_t>(values, DType::kInt8, qparams.shape);
  }
}

std::string zero_point_constant(OnnxSteps& s, const OnnxQParams& qparams) {
  if (qparams.is_per_tensor())
    return s.number(static_cast<double>(qparams.zero_point[0]), qparams.dtype);
  return s.constant("zero_point", zero_points(qparams));
}

OnnxAttributes attributes_of(const OnnxQParams& qparams) {
  OnnxAttributes attributes;
  if (!qparams.is_per_tensor()) attributes.emplace_back("axis", qparams.axis);
  if (qparams.is_blocked()) attributes.emplace_back("block_size", qparams.block);
  return attributes;
}

// Those of tensors are shared.
std::string scale_constant(OnnxSteps& s, const OnnxQParams& qparams) {
  if (qparams.is_per_tensor())
    return s.number(static_cast<double>(qparams.scale[0]), DType::kFloat32);
  return s.constant("scale", Tensor::from<float>(DType::kFloat32, qparams.shape, qparams.scale));
}

// A matrix of numbers, the other way round.
template <typename T>
std::vector<T> transposed_list(const std::vector<T>& values, const std::vector<int64_t>& shape) {
  const size_t rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
  std::vector<T> result(values.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) result[j * rows + i] = values[i * columns + j];
  return result;
}

bool fits_four_bits(const OnnxQParams& qparams) {
  return qparams.is_blocked() &&
         ((qparams.dtype == DType::kInt8 && qparams.low >= -8 && qparams.high <= 7) ||
          (qparams.dtype == DType::kUInt8 && qparams.low >= 0 && qparams.high <= 15));
}

}  // namespace

bool is_dequantize(const Node& node) {
  for (const char* op :
       {"quantized_decomposed.dequantize_per_tensor", "quantized_decomposed.dequantize_per_channel",
        "quantized_decomposed.dequantize_per_channel_group", "torchao.dequantize_affine"})
    if (node.is(op)) return true;
  return false;
}

std::optional<OnnxQParams> find_qparams(const Node& node, std::string& why) {
  const std::optional<std::vector<double>> scale =
                                               numbers_of(node, one_of(node, "scale", "scales")),
                                           zero_point = numbers_of(
                                               node, one_of(node, "zero_point", "zero_points"));
  if (!scale || !zero_point) {
    why = "with scales that are computed otherwise than by a choose_qparams";
    return std::nullopt;
  }
  OnnxQParams qparams;
  qparams.dtype = integer_dtype(node);
  qparams.scale.assign(scale->begin(), scale->end());
  if (zero_point->empty()) qparams.zero_point.assign(scale->size(), 0);
  if (!is_integer(qparams.dtype) || size_of(qparams.dtype) > 4) {
    why = fmt::format("of {}", name_of(qparams.dtype));
    return std::nullopt;
  }
  for (double zero : *zero_point) {
    if (zero != std::nearbyint(zero)) {
      why = "with zero points that are no integers";
      return std::nullopt;
    }
    qparams.zero_point.push_back(static_cast<int64_t>(zero));
  }
  if (qparams.zero_point.size() != qparams.scale.size()) {
    why = fmt::format("with {} scales and {} zero points", qparams.scale.size(),
                      qparams.zero_point.size());
    return std::nullopt;
  }
  const IntegerRange range = integer_range(qparams.dtype);
  qparams.low = std::max(node.int_or("quant_min", range.min), range.min);
  qparams.high = std::min(node.int_or("quant_max", range.max), range.max);
  for (int64_t zero : qparams.zero_point)
    if (zero < range.min || zero > range.max) {
      why = fmt::format("with zero point {} of {}", zero, name_of(qparams.dtype));
      return std::nullopt;
    }
  if (!place_scales(node, qparams, why)) return std::nullopt;
  return qparams;
}

std::optional<StoredWeight> find_stored_weight(const Value* value) {
  const Node* node = value == nullptr ? nullptr : value->producer();
  if (node == nullptr || !is_dequantize(*node)) return std::nullopt;
  const Tensor* constant = value->graph().find_constant(node->find_input("input"));
  std::string why;
  if (constant == nullptr) return std::nullopt;
  std::optional<OnnxQParams> qparams = find_qparams(*node, why);
  if (!qparams) return std::nullopt;
  return StoredWeight{constant->contiguous(), std::move(*qparams)};
}

std::optional<OnnxQParams> find_activation_qparams(const Value* value) {
  const Node* node = value == nullptr ? nullptr : value->producer();
  if (node == nullptr || !is_dequantize(*node)) return std::nullopt;
  std::string why;
  const std::optional<OnnxQParams> qparams = find_qparams(*node, why);
  return qparams && qparams->is_per_tensor() ? qparams : std::nullopt;
}

StoredWeight transposed(const StoredWeight& weight) {
  StoredWeight result = weight;
  result.values = permute_constant(weight.values, {1, 0});
  result.qparams.axis = 1 - weight.qparams.axis;
  if (!weight.qparams.is_blocked()) return result;
  const std::vector<int64_t>& shape = weight.qparams.shape;
  result.qparams.scale = transposed_list(weight.qparams.scale, shape);
  result.qparams.zero_point = transposed_list(weight.qparams.zero_point, shape);
  result.qparams.shape = {shape[1], shape[0]};
  return result;
}

std::string quantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams) {
  const std::string scale = scale_constant(s, qparams);
  return s.op("QuantizeLinear", {name, scale, zero_point_constant(s, qparams)},
              attributes_of(qparams));
}

std::string dequantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams) {
  const bool is_wide = qparams.dtype == DType::kInt32;  // whose zero point is 0
  const std::string scale = scale_constant(s, qparams);
  return s.op("DequantizeLinear", {name, scale, is_wide ? "" : zero_point_constant(s, qparams)},
              attributes_of(qparams));
}

std::string dequantized(OnnxSteps& s, const std::string& name, const StoredWeight& weight) {
  const OnnxQParams& qparams = weight.qparams;
  if (!fits_four_bits(qparams))
    return dequantized(s, s.exporter.add_initializer(name, weight.values), qparams);
  const OnnxType type = qparams.dtype == DType::kInt8 ? OnnxType::kInt4 : OnnxType::kUInt4;
  const std::string values =
      s.exporter.add_initializer(name, type, weight.values.shape(), pack_nibbles(weight.values));
  const std::string scale = scale_constant(s, qparams);
  const std::string zeros = s.exporter.add_initializer(
      s.node.name() + "_zero_point", type, qparams.shape, pack_nibbles(zero_points(qparams)));
  return s.op("DequantizeLinear", {values, scale, zeros}, attributes_of(qparams));
}

}  // namespace octet
