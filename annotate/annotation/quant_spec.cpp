#include "annotate/annotation/quant_spec.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/annotation/qparams.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet {
namespace {

constexpr std::array<std::pair<QScheme, std::string_view>, 5> kQSchemes = {{
    {QScheme::kPerTensorAffine, "per_tensor_affine"},
    {QScheme::kPerTensorSymmetric, "per_tensor_symmetric"},
    {QScheme::kPerChannelAffine, "per_channel_affine"},
    {QScheme::kPerChannelSymmetric, "per_channel_symmetric"},
    {QScheme::kPerChannelAffineFloatQParams, "per_channel_affine_float_qparams"},
}};

[[noreturn]] void refuse_spec(const std::string& subject, const std::string& message) {
  throw Error("annotate", subject, message);
}

void check_axis(std::optional<QScheme> qscheme, std::optional<int> ch_axis,
                const std::string& subject) {
  if (ch_axis && *ch_axis < 0)
    refuse_spec(subject, fmt::format("ch_axis is negative, got {}, want 0 or more", *ch_axis));
  if (qscheme && is_per_channel(*qscheme) && !ch_axis)
    refuse_spec(
        subject,
        fmt::format("a spec with qscheme {} has no ch_axis; set ch_axis to the channel dimension",
                    name_of(*qscheme)));
}

void check_range(DType dtype, std::optional<int64_t> quant_min, std::optional<int64_t> quant_max,
                 const std::string& subject) {
  if (quant_min && quant_max && *quant_min > *quant_max)
    refuse_spec(subject,
                fmt::format("quant_min is above quant_max, got [{}, {}]", *quant_min, *quant_max));
  if (!is_integer(dtype) || size_of(dtype) > 4) return;
  const IntegerRange range = integer_range(dtype);
  for (const std::optional<int64_t>& end : {quant_min, quant_max})
    if (end && (*end < range.min || *end > range.max))
      refuse_spec(subject, fmt::format("the quant range leaves {}, got {}, want [{}, {}]",
                                       name_of(dtype), *end, range.min, range.max));
}

// The range of float8 is that of its finite values: 448 (e4m3fn) and 57344 (e5m2).
void check_float8_range(DType dtype, std::optional<int64_t> quant_min,
                        std::optional<int64_t> quant_max, const std::string& subject) {
  if (dtype != DType::kFloat8E4M3FN && dtype != DType::kFloat8E5M2) return;
  const int64_t largest = dtype == DType::kFloat8E4M3FN ? 448 : 57344;
  for (const std::optional<int64_t>& end : {quant_min, quant_max})
    if (end && (*end < -largest || *end > largest))
      refuse_spec(subject, fmt::format("the quant range leaves {}, got {}, want [{}, {}]",
                                       name_of(dtype), *end, -largest, largest));
}

void check_eps(const std::optional<double>& eps, const std::string& subject) {
  if (eps && (!(static_cast<float>(*eps) > 0) || !std::isfinite(static_cast<float>(*eps))))
    refuse_spec(subject, fmt::format("eps, the least scale of an observer, is {}, want a positive "
                                     "and finite float32",
                                     *eps));
}

void check_options(const ObserverChoice& choice, const std::string& subject) {
  check_eps(choice.eps, subject);
  const double constant = choice.averaging_constant;
  if (!(constant > 0 && constant <= 1))
    refuse_spec(subject, fmt::format("averaging_constant, the weight of the newest batch, is {}, "
                                     "want one above 0 and at most 1",
                                     constant));
  if (choice.bins < 2)
    refuse_spec(subject, fmt::format("bins is {}, want at least 2", choice.bins));
  if (!(choice.percentile > 0 && choice.percentile <= 100))
    refuse_spec(subject, fmt::format("percentile is {}, want one above 0 and at most 100",
                                     choice.percentile));
}

void check_affine(const ObserverChoice& choice, std::optional<QScheme> qscheme,
                  const std::string& subject) {
  const bool wants_options = choice.name.starts_with("affine_");
  if (wants_options != choice.affine.has_value())
    refuse_spec(
        subject,
        wants_options
            ? fmt::format(
                  "observer {} has no affine options; give a granularity and a mapping type",
                  choice.name)
            : fmt::format("observer {} takes no affine options; use affine_min_max", choice.name));
  if (!choice.affine) return;
  const Granularity& granularity = choice.affine->granularity;
  if (granularity.kind == Granularity::Kind::kPerGroup && granularity.group_size < 1)
    refuse_spec(subject,
                fmt::format("a granularity per group wants a group size of 1 or more, got {}",
                            granularity.group_size));
  if (granularity.kind == Granularity::Kind::kPerBlock &&
      (granularity.block_size.empty() || *std::ranges::min_element(granularity.block_size) < 1))
    refuse_spec(subject, fmt::format("a granularity per block wants sizes of 1 or more, got {}",
                                     granularity.block_size));
  if (choice.affine->zero_point_domain != ZeroPointDomain::kInt || !choice.affine->preserve_zero)
    refuse_spec(subject,
                "torchao.quantize_affine takes only integer zero points that keep 0 exact; leave "
                "zero_point_domain and preserve_zero at their defaults");
  if (qscheme)
    refuse_spec(subject,
                fmt::format("affine options replace the qscheme, got {} too; leave the qscheme out",
                            name_of(*qscheme)));
}

struct SpecChecker {
  const std::string& subject;

  void operator()(const QuantizationSpec& spec) const {
    check_range(spec.dtype, spec.quant_min, spec.quant_max, subject);
    check_float8_range(spec.dtype, spec.quant_min, spec.quant_max, subject);
    check_axis(spec.qscheme, spec.ch_axis, subject);
    check_options(spec.observer_or_fake_quant_ctr, subject);
    check_affine(spec.observer_or_fake_quant_ctr, spec.qscheme, subject);
  }
  void operator()(const SharedQuantizationSpec& spec) const {
    const Edge* edge = std::get_if<Edge>(&spec.edge_or_node);
    const Value* value = edge != nullptr ? edge->value : std::get<Value*>(spec.edge_or_node);
    if (value == nullptr || (edge != nullptr && edge->user == nullptr))
      refuse_spec(subject, "a shared spec names no edge or value");
  }
  void operator()(const FixedQParamsQuantizationSpec& spec) const {
    check_range(spec.dtype, spec.quant_min, spec.quant_max, subject);
    const float scale = static_cast<float>(spec.scale);  // as stored in the program
    if (!(scale > 0) || !std::isfinite(scale))
      refuse_spec(
          subject,
          fmt::format("a fixed scale must be a positive and finite float32, got {}", spec.scale));
    const int64_t low = spec.quant_min.value_or(is_integer(spec.dtype) && size_of(spec.dtype) <= 4
                                                    ? integer_range(spec.dtype).min
                                                    : spec.zero_point);
    const int64_t high = spec.quant_max.value_or(is_integer(spec.dtype) && size_of(spec.dtype) <= 4
                                                     ? integer_range(spec.dtype).max
                                                     : spec.zero_point);
    if (spec.zero_point < low || spec.zero_point > high)
      refuse_spec(
          subject,
          fmt::format("a fixed zero point lies outside of the quant range, got {}, want [{}, {}]",
                      spec.zero_point, low, high));
    if (spec.is_dynamic)
      refuse_spec(subject,
                  "a spec with fixed scale and zero point cannot be dynamic; unset is_dynamic");
    if (spec.qscheme && is_per_channel(*spec.qscheme))
      refuse_spec(subject, fmt::format("fixed scale and zero point are per tensor, got {}",
                                       name_of(*spec.qscheme)));
  }
  void operator()(const DerivedQuantizationSpec& spec) const {
    check_range(spec.dtype, spec.quant_min, spec.quant_max, subject);
    check_axis(spec.qscheme, spec.ch_axis, subject);
    if (spec.derived_from.empty())
      refuse_spec(subject, "a derived spec names nothing that it derives from");
    if (!spec.derive_qparams_fn)
      refuse_spec(subject, fmt::format("a derived spec has no function, got \"{}\"; want "
                                       "product_of_scales, sum_of_scales or your own",
                                       spec.derive_name));
  }
};

using Kind = Granularity::Kind;

// The dimension `axis` counted from the front; negative ones count from the end.
size_t dimension(int axis, size_t rank, const std::string& subject) {
  const int64_t index = wrap_dim(axis, rank);
  if (index < 0 || index >= static_cast<int64_t>(rank))
    throw Error(
        "annotate", subject,
        fmt::format(
            "a granularity along dimension {} of a tensor of rank {}; want a dimension that it has",
            axis, rank));
  return static_cast<size_t>(index);
}

int64_t known(int64_t size, size_t dim, Kind kind, const std::string& subject) {
  if (size >= 0) return size;
  throw Error("annotate", subject,
              fmt::format("{} needs the size of dimension {}, which is known at run time only; "
                          "choose per_token, or export with a fixed size",
                          name_of(kind), dim));
}

void check_divides(int64_t block, int64_t size, size_t dim, const std::string& subject) {
  if (block > 0 && size % block == 0) return;
  throw Error("annotate", subject,
              fmt::format("blocks of {} do not divide the {} elements of dimension {}; choose a "
                          "group or block size that does",
                          block, size, dim));
}

std::vector<int64_t> given_blocks(const Granularity& granularity, std::span<const int64_t> shape,
                                  const std::string& subject) {
  if (granularity.block_size.size() > shape.size())
    throw Error(
        "annotate", subject,
        fmt::format(
            "a block of {} dimensions for a tensor of rank {}, got {}; want at most as many",
            granularity.block_size.size(), shape.size(), granularity.block_size));
  std::vector<int64_t> result(shape.size() - granularity.block_size.size(), 1);
  result.insert(result.end(), granularity.block_size.begin(), granularity.block_size.end());
  for (size_t i = 0; i < shape.size(); ++i)
    if (result[i] != 1)
      check_divides(result[i], known(shape[i], i, granularity.kind, subject), i, subject);
  return result;
}

}  // namespace

bool is_per_channel(QScheme qscheme) {
  return qscheme == QScheme::kPerChannelAffine || qscheme == QScheme::kPerChannelSymmetric ||
         qscheme == QScheme::kPerChannelAffineFloatQParams;
}

bool is_symmetric(QScheme qscheme) {
  return qscheme == QScheme::kPerTensorSymmetric || qscheme == QScheme::kPerChannelSymmetric;
}

std::string_view name_of(QScheme qscheme) {
  for (const auto& [scheme, name] : kQSchemes)
    if (scheme == qscheme) return name;
  OCTET_ASSERT(false, "unknown qscheme");
}

std::optional<QScheme> find_qscheme(std::string_view name) {
  for (const auto& [scheme, known] : kQSchemes)
    if (known == name) return scheme;
  return std::nullopt;
}

void check_spec(const SpecVariant& spec, const std::string& subject) {
  std::visit(SpecChecker{subject}, spec);
}

std::string_view name_of(MappingType type) {
  constexpr std::string_view kNames[] = {"SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"per_tensor", "per_axis", "per_group",
                                         "per_token",  "per_row",  "per_block"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_text(const Granularity& granularity) {
  const std::string name(name_of(granularity.kind));
  switch (granularity.kind) {
    case Kind::kPerAxis:
    case Kind::kPerRow: return fmt::format("{} {}", name, granularity.axis);
    case Kind::kPerGroup: return fmt::format("{} {}", name, granularity.group_size);
    case Kind::kPerBlock: return fmt::format("{} {}", name, granularity.block_size);
    default: return name;
  }
}

std::vector<int64_t> block_size_of(const Granularity& granularity, std::span<const int64_t> shape,
                                   const std::string& subject) {
  if (granularity.kind == Kind::kPerBlock) return given_blocks(granularity, shape, subject);
  if (shape.empty() && granularity.kind != Kind::kPerTensor)
    throw Error("annotate", subject,
                fmt::format("{} of a tensor without dimensions; want per_tensor",
                            name_of(granularity.kind)));
  std::vector<int64_t> result(shape.size(), 1);
  const auto fill = [&](size_t dim) {
    result[dim] = known(shape[dim], dim, granularity.kind, subject);
  };
  switch (granularity.kind) {
    case Kind::kPerTensor:
      for (size_t i = 0; i < shape.size(); ++i) fill(i);
      break;
    case Kind::kPerAxis: {
      const size_t axis = dimension(granularity.axis, shape.size(), subject);
      for (size_t i = 0; i < shape.size(); ++i)
        if (i != axis) fill(i);
      break;
    }
    case Kind::kPerRow: fill(dimension(granularity.axis, shape.size(), subject)); break;
    case Kind::kPerToken: fill(shape.size() - 1); break;
    default:  // kPerGroup
      check_divides(granularity.group_size,
                    known(shape.back(), shape.size() - 1, granularity.kind, subject),
                    shape.size() - 1, subject);
      result.back() = granularity.group_size;
  }
  return result;
}

BlockReduction block_reduction(std::span<const int64_t> block_size,
                               std::span<const int64_t> shape) {
  OCTET_ASSERT(block_size.size() == shape.size(), "a block has as many dimensions as its tensor");
  BlockReduction result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (block_size[i] == 1) {
      result.shape.push_back(shape[i]);
      result.scales.push_back(shape[i]);
      continue;
    }
    if (block_size[i] != shape[i]) {
      result.shape.push_back(shape[i] / block_size[i]);
      result.scales.push_back(shape[i] / block_size[i]);
    }
    result.dims.push_back(static_cast<int64_t>(result.shape.size()));
    result.shape.push_back(block_size[i]);
  }
  return result;
}

}  // namespace octet
