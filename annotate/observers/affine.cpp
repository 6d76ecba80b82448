#include "annotate/observers/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/annotation/qparams.h"
#include "annotate/observers/kernels.h"
#include "core/base/error.h"
#include "core/base/half.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

using c10::Scalar;

constexpr std::array<DType, 6> kDTypes = {DType::kUInt8, DType::kInt8,         DType::kInt16,
                                          DType::kInt32, DType::kFloat8E4M3FN, DType::kFloat8E5M2};

constexpr int kSearchedOctaves = 2;  // how far a block's range may be clipped

constexpr const char* kNoData =
    "the observer saw no data, got 0 samples, want at least 1; calibrate before converting";

// The affine ops define the range of float8; they lack uint16.
IntegerRange affine_range(const ObserverArgs& args) {
  if (std::ranges::find(kDTypes, args.dtype) == kDTypes.end())
    throw Error("prepare", args.choice.name,
                fmt::format("the affine ops do not quantize to {}, want uint8, int8, int16, int32, "
                            "float8_e4m3fn or float8_e5m2",
                            name_of(args.dtype)));
  if (!args.quant_min && !args.quant_max && !is_integer(args.dtype)) {
    const int64_t largest = args.dtype == DType::kFloat8E4M3FN ? 448 : 57344;
    return {-largest, largest};
  }
  return resolve_quant_range(args.dtype, args.quant_min, args.quant_max, args.reduce_range,
                             args.choice.name);
}

double eps_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Half: return std::numeric_limits<c10::Half>::epsilon();
    case c10::ScalarType::BFloat16: return std::numeric_limits<c10::BFloat16>::epsilon();
    case c10::ScalarType::Double: return std::numeric_limits<double>::epsilon();
    default: return kFloatEps;
  }
}

void check_finite(const at::Tensor& values) {
  if (!at::isfinite(values).all().item<bool>())
    throw Error("calibrate", "", "the observed values hold NaN or infinities, which give no scale");
}

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

QParams as_qparams(const at::Tensor& scale, const at::Tensor& zero_point) {
  QParams result;
  result.scale = to_vector(scale);
  for (float value : to_vector(zero_point))
    result.zero_point.push_back(static_cast<int64_t>(value));
  result.zero_point_dtype = from_scalar_type(zero_point.scalar_type());
  return result;
}

at::Tensor to_tensor(const std::vector<float>& values) {
  return at::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kFloat)
      .clone();
}

at::Tensor scale_of(const at::Tensor& low, const at::Tensor& high, MappingType mapping,
                    double quant_min, double quant_max) {
  switch (mapping) {
    case MappingType::kSymmetric:
      return at::maximum(-low, high) / Scalar((quant_max - quant_min) / 2);
    case MappingType::kSymmetricNoClippingErr: {
      const at::Tensor from_low = low / Scalar(quant_min);
      const at::Tensor from_high = high / Scalar(quant_max);
      return at::where(from_low > from_high, from_low, from_high);
    }
    default: return (high - low) / Scalar(quant_max - quant_min);
  }
}

}  // namespace

AffineObserver::AffineObserver(ObserverArgs args, Kind kind)
    : Observer(args, affine_range(args)), kind_(kind) {
  const auto refuse = [&](const std::string& message) {
    throw Error("prepare", args_.choice.name, message);
  };
  if (!args_.choice.affine)
    refuse("the spec has no affine options; give a granularity and a mapping type");
  if (!is_integer(args_.dtype) && options().mapping_type != MappingType::kSymmetric)
    refuse(fmt::format("{} takes symmetric scales only, got {}; choose SYMMETRIC",
                       name_of(args_.dtype), name_of(options().mapping_type)));
  if (kind == Kind::kMse &&
      (!is_integer(args_.dtype) || options().mapping_type == MappingType::kAsymmetric))
    refuse(fmt::format(
        "this observer searches symmetric scales of integers, got {} and {}; use affine_min_max",
        name_of(options().mapping_type), name_of(args_.dtype)));
  if (args_.is_dynamic && (kind == Kind::kMinMax || kind == Kind::kMse ||
                           (kind == Kind::kMovingAverage && args_.choice.averaging_constant != 1)))
    refuse("this observer cannot serve dynamic quantization; use affine_placeholder");
  if (!args_.is_dynamic && kind == Kind::kPlaceholder)
    refuse("a placeholder has no scale; set is_dynamic, or use affine_min_max");
}

std::vector<int64_t> AffineObserver::block_size(std::span<const int64_t> shape) const {
  return block_size_of(options().granularity, shape, args_.choice.name);
}

void AffineObserver::observe(const at::Tensor& x) {
  if (kind_ == Kind::kPlaceholder || x.numel() == 0) return;
  const BlockReduction blocks = block_reduction(block_size(x.sizes()), x.sizes());
  const at::Tensor view = x.detach().reshape(blocks.shape);
  const auto [low, high] = ranges_of(view, blocks.dims);
  const bool starts_anew = !min_.defined() || args_.is_dynamic;
  if (!starts_anew && min_.numel() != low.numel())
    throw Error("calibrate", "",
                fmt::format("the number of blocks with a scale changed, got {}, want {}; static "
                            "scales {} want tensors of one shape",
                            low.numel(), min_.numel(), name_of(options().granularity.kind)));
  if (starts_anew) {
    min_ = first_min_ = low;
    max_ = first_max_ = high;
  } else if (kind_ == Kind::kMse) {
    if (!at::equal(min_.reshape_as(low), low) || !at::equal(max_.reshape_as(high), high))
      throw Error(
          "calibrate", "",
          fmt::format("{} looks at one constant tensor, got a second one; use affine_min_max",
                      args_.choice.name));
  } else if (kind_ == Kind::kMinMax) {
    min_ = at::minimum(min_.reshape_as(low), low);
    max_ = at::maximum(max_.reshape_as(high), high);
  } else {
    const Scalar constant(args_.choice.averaging_constant);
    min_ = min_.reshape_as(low) + (low - min_.reshape_as(low)) * constant;
    max_ = max_.reshape_as(high) + (high - max_.reshape_as(high)) * constant;
  }
  ++batches_;
  observed_shape_ = x.sizes().vec();
}

std::pair<at::Tensor, at::Tensor> AffineObserver::ranges_of(
    const at::Tensor& view, const std::vector<int64_t>& dims) const {
  const at::Tensor low = dims.empty() ? view.clone() : at::amin(view, dims);
  const at::Tensor high = dims.empty() ? view.clone() : at::amax(view, dims);
  check_finite(low);
  check_finite(high);
  if (kind_ != Kind::kMse || dims.empty()) return {low, high};
  const Found found = search_ranges(view, dims);
  return {found.low, found.high};
}

double AffineObserver::fit(const at::Tensor& x, const at::Tensor& importance) {
  OCTET_ASSERT(searches() && !has_data(), args_.choice.name);
  const BlockReduction blocks = block_reduction(block_size(x.sizes()), x.sizes());
  const at::Tensor view = x.detach().reshape(blocks.shape);
  check_finite(view);
  const Found found =
      search_ranges(view, blocks.dims, importance.expand_as(x).reshape(blocks.shape));
  min_ = first_min_ = found.low;
  max_ = first_max_ = found.high;
  ++batches_;
  observed_shape_ = x.sizes().vec();
  return found.error;
}

AffineObserver::Found AffineObserver::search_ranges(const at::Tensor& view,
                                                    const std::vector<int64_t>& dims,
                                                    const at::Tensor& importance) const {
  std::vector<int64_t> order;  // the blocks' dimensions, then those within a block
  for (int64_t dim = 0; dim < view.dim(); ++dim)
    if (std::ranges::find(dims, dim) == dims.end()) order.push_back(dim);
  const size_t outer = order.size();
  order.insert(order.end(), dims.begin(), dims.end());
  const auto in_rows = [&](const at::Tensor& x) {
    return x.to(at::kFloat).permute(order).contiguous();
  };
  const at::Tensor rows = in_rows(view);
  const at::Tensor weights = importance.defined() ? in_rows(importance) : importance;
  const std::vector<int64_t> shape(rows.sizes().begin(),
                                   rows.sizes().begin() + static_cast<std::ptrdiff_t>(outer));
  at::Tensor low = at::empty(shape, at::kFloat);
  at::Tensor high = at::empty(shape, at::kFloat);
  at::Tensor error = at::zeros(shape, at::kDouble);
  const size_t length = static_cast<size_t>(rows.numel() / low.numel());
  const double quant_min = static_cast<double>(quant_min_);
  const double quant_max = static_cast<double>(quant_max_);
  const double eps = args_.choice.eps.value_or(eps_of(view.scalar_type()));
  const double finest = takes_finer_scales() ? args_.finest_scales.front() : eps;
  const bool is_middle = options().mapping_type == MappingType::kSymmetric;
  const double zero_point = static_cast<double>((quant_max_ + quant_min_ + 1) / 2);
  const double threshold = finer_below(eps);
  const bool has_16_bit_scales = options().has_16_bit_scales;
  const auto lattice_of = [=](const ValueRange& range) {
    const double down = -static_cast<double>(range.min);
    const double up = static_cast<double>(range.max);
    const double scale = is_middle ? std::max(down, up) * 2 / (quant_max - quant_min)
                                   : std::max(down / -quant_min, up / quant_max);
    const double least = scale < threshold ? finest : eps;
    double step = std::max(scale, least);
    if (has_16_bit_scales) step = bfloat_to_float(float_to_bfloat(static_cast<float>(step)));
    return Lattice{step, quant_min - zero_point, quant_max - zero_point};
  };
  at::parallel_for(0, low.numel(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const std::span<const float> values(
          rows.const_data_ptr<float>() + static_cast<size_t>(block) * length, length);
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      const RangeError error_of = [&](const ValueRange& tried, double limit) {
        if (!weights.defined()) return squared_error(values, lattice_of(tried), limit);
        const float* first = weights.const_data_ptr<float>();
        return squared_error(values, {first + static_cast<size_t>(block) * length, length},
                             lattice_of(tried));
      };
      const ValueRange range = least_error_range(
          {*least, *most}, {.is_symmetric = true, .octaves = kSearchedOctaves}, error_of);
      if (weights.defined()) error.data_ptr<double>()[block] = error_of(range, 0);
      low.data_ptr<float>()[block] = range.min;
      high.data_ptr<float>()[block] = range.max;
    }
  });
  return {low.to(view.scalar_type()), high.to(view.scalar_type()), error.sum().item<double>()};
}

// float16 cannot represent scales below eps.
bool AffineObserver::takes_finer_scales() const {
  return !args_.finest_scales.empty() &&
         options().scale_dtype.value_or(DType::kFloat32) == DType::kFloat32;
}

double AffineObserver::finer_below(double eps) const {
  return eps * fewest_steps(quant_min_, quant_max_) / static_cast<double>(quant_max_ - quant_min_);
}

at::Tensor AffineObserver::floored(const at::Tensor& scale) const {
  const double eps = args_.choice.eps.value_or(eps_of(scale.scalar_type()));
  const at::Tensor coarse = at::clamp(scale, Scalar(eps));
  if (!takes_finer_scales() || scale.scalar_type() != at::kFloat) return coarse;
  const at::Tensor is_below = scale.gt(0).logical_and(scale.lt(finer_below(eps)));
  return at::where(is_below, at::clamp(scale, Scalar(args_.finest_scales.front())), coarse);
}

std::pair<at::Tensor, at::Tensor> AffineObserver::qparams_of(const at::Tensor& min,
                                                             const at::Tensor& max) const {
  const c10::ScalarType type = min.scalar_type();
  const at::Tensor low = at::minimum(min, at::zeros_like(min));
  const at::Tensor high = at::maximum(max, at::zeros_like(max));
  const MappingType mapping = options().mapping_type;
  at::Tensor scale = floored(scale_of(low, high, mapping, static_cast<double>(quant_min_),
                                      static_cast<double>(quant_max_)));
  if (options().has_16_bit_scales) scale = scale.to(at::kBFloat16).to(type);
  const at::Tensor zero_point =
      mapping == MappingType::kAsymmetric
          ? at::clamp(at::rsub(at::round(low / scale), Scalar(quant_min_)), Scalar(quant_min_),
                      Scalar(quant_max_))
          : at::full_like(scale, Scalar((quant_max_ + quant_min_ + 1) / 2));
  const auto wanted = [&](std::optional<DType> dtype) {
    return dtype ? to_scalar_type(*dtype) : type;
  };
  return {scale.to(wanted(options().scale_dtype)),
          zero_point.to(wanted(options().zero_point_dtype))};
}

std::pair<at::Tensor, at::Tensor> AffineObserver::qparam_tensors(std::span<const int64_t> shape,
                                                                 DType dtype,
                                                                 const std::string& subject) const {
  if (!min_.defined()) throw Error("convert", subject, kNoData);
  const std::vector<int64_t> scales =
      block_reduction(block_size_of(options().granularity, shape, subject), shape).scales;
  if (product(scales) != min_.numel())
    throw Error("convert", subject,
                fmt::format("observed {} blocks, want {} for a tensor of shape {}", min_.numel(),
                            product(scales), shape));
  const c10::ScalarType type = to_scalar_type(dtype);
  std::pair<at::Tensor, at::Tensor> result =
      qparams_of(min_.to(type).reshape(scales), max_.to(type).reshape(scales));
  // scale_dtype and zero_point_dtype may not hold the computed values
  check_qparams(as_qparams(result.first, result.second), {quant_min_, quant_max_},
                fmt::format("the observer \"{}\"", args_.choice.name), subject);
  return result;
}

QParams AffineObserver::calculate_qparams() const {
  if (kind_ == Kind::kPlaceholder)
    throw Error("convert", args_.choice.name,
                "a placeholder observer has no scale; use it for dynamic quantization");
  if (!min_.defined()) throw Error("convert", "", kNoData);
  const auto [scale, zero_point] = qparams_of(min_, max_);
  QParams result = as_qparams(scale, zero_point);
  if (observed_shape_) result.block_size = block_size(*observed_shape_);
  return result;
}

Sees AffineObserver::sees() const {
  const bool is_of_rows =
      args_.is_dynamic && options().granularity.kind != Granularity::Kind::kPerTensor;
  return kind_ == Kind::kPlaceholder || is_of_rows ? Sees::kNothing : Sees::kAll;
}

ObserverState AffineObserver::state() const {
  if (!min_.defined()) return {};
  ObserverState result;
  result.min = to_vector(min_);
  result.max = to_vector(max_);
  if (kind_ != Kind::kMovingAverage) return result;
  result.batches = batches_;
  result.first_min = to_vector(first_min_);
  result.first_max = to_vector(first_max_);
  return result;
}

void AffineObserver::set_state(const ObserverState& state) {
  const size_t blocks = state.min.size();
  const bool averages = kind_ == Kind::kMovingAverage;
  if (state.max.size() != blocks ||
      (averages && (state.first_min.size() != blocks || state.first_max.size() != blocks)))
    throw Error("state", args_.choice.name,
                fmt::format("the ends of the ranges differ in number, got {} and {}", blocks,
                            state.max.size()));
  min_ = blocks == 0 ? at::Tensor() : to_tensor(state.min);
  max_ = blocks == 0 ? at::Tensor() : to_tensor(state.max);
  first_min_ = blocks == 0 || !averages ? at::Tensor() : to_tensor(state.first_min);
  first_max_ = blocks == 0 || !averages ? at::Tensor() : to_tensor(state.first_max);
  batches_ = state.batches;
  observed_shape_.reset();
}

void AffineObserver::merge(const Observer& other) {
  check_mergeable(other);
  const AffineObserver* affine = dynamic_cast<const AffineObserver*>(&other);
  OCTET_ASSERT(affine != nullptr && affine->kind_ == kind_, "mergeable observers are of one kind");
  if (!affine->min_.defined()) return;
  if (!min_.defined()) {
    min_ = affine->min_;
    max_ = affine->max_;
    first_min_ = affine->first_min_;
    first_max_ = affine->first_max_;
    batches_ = affine->batches_;
    observed_shape_ = affine->observed_shape_;
    return;
  }
  if (affine->min_.numel() != min_.numel())
    throw Error("state", args_.choice.name,
                fmt::format("the numbers of blocks differ, got {}, want {}", affine->min_.numel(),
                            min_.numel()));
  const at::Tensor low = affine->min_.reshape_as(min_);
  const at::Tensor high = affine->max_.reshape_as(max_);
  if (kind_ == Kind::kMse && (!at::equal(min_, low) || !at::equal(max_, high)))
    throw Error("state", fmt::format("observer \"{}\"", args_.choice.name),
                "the two saw different tensors, want the same weights; calibrate the same model");
  if (kind_ != Kind::kMovingAverage) {
    min_ = at::minimum(min_, low);
    max_ = at::maximum(max_, high);
  } else {
    const Scalar left(
        std::pow(1 - args_.choice.averaging_constant, static_cast<double>(affine->batches_)));
    min_ = low + (min_ - affine->first_min_.reshape_as(min_)) * left;
    max_ = high + (max_ - affine->first_max_.reshape_as(max_)) * left;
  }
  batches_ += affine->batches_;
}

}  // namespace octet
