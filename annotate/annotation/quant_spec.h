// The specs that a Quantizer can give a tensor: PT2E's four kinds. Names and meanings follow
// torchao's quantization/pt2e/quantizer/quantizer.py.
#pragma once

#include "core/base/dtype.h"
#include "core/graph/graph.h"

namespace octet {

class Observer;

enum class QScheme {
  kPerTensorAffine,
  kPerTensorSymmetric,
  kPerChannelAffine,
  kPerChannelSymmetric,
  kPerChannelAffineFloatQParams
};
bool is_per_channel(QScheme qscheme);
bool is_symmetric(QScheme qscheme);
std::string_view name_of(QScheme qscheme);  // "per_tensor_affine", ...
std::optional<QScheme> find_qscheme(std::string_view name);

constexpr double kFloatEps = 1.1920928955078125e-07;  // FLT_EPSILON, the observers' default eps
constexpr double kBackendEps = 0.000244140625;        // 2^-12, what every shipped backend asks for

// The edge from a value to one of its users, or the value itself. This is PT2E's EdgeOrNode, where
// a node means its output.
struct Edge {
  Value* value = nullptr;
  Node* user = nullptr;
  bool operator==(const Edge&) const = default;
};
using EdgeOrNode = std::variant<Edge, Value*>;

// Which elements of a tensor share a scale. Names follow torchao's quantization/granularity.py.
struct Granularity {
  enum class Kind { kPerTensor, kPerAxis, kPerGroup, kPerToken, kPerRow, kPerBlock };
  Kind kind = Kind::kPerTensor;
  // kPerAxis: the dimension with one scale per index; kPerRow: the dimension that one scale spans;
  // -1: the last
  int axis = 0;
  // kPerGroup: elements of the last dimension per scale; > 0, divides it
  int64_t group_size = 0;
  std::vector<int64_t> block_size;  // kPerBlock: elements of each dimension per scale
  bool operator==(const Granularity&) const = default;
};

enum class MappingType { kSymmetric, kSymmetricNoClippingErr, kAsymmetric };
enum class ZeroPointDomain { kInt, kFloat, kNone };

// Further options of affine observers, for which convert emits torchao.quantize_affine and its
// relatives.
struct AffineOptions {
  Granularity granularity;
  MappingType mapping_type = MappingType::kAsymmetric;
  std::optional<DType> scale_dtype;       // default: the dtype of the observed tensor
  std::optional<DType> zero_point_dtype;  // default: that too; int32 when dynamic and asymmetric
  bool preserve_zero = true;
  ZeroPointDomain zero_point_domain = ZeroPointDomain::kInt;
  // stored scales are rounded to values of bfloat16, which files keep in 16 bits; scale_dtype stays
  bool has_16_bit_scales = false;
  bool operator==(const AffineOptions&) const = default;
};

// Which observer a spec uses: its registered name and its constructor arguments.
struct ObserverChoice {
  std::string name = "min_max";      // see annotate/observers/observer.h for the built-in ones
  std::optional<double> eps;         // default kFloatEps
  int bins = 2048;                   // histogram observers
  double averaging_constant = 0.01;  // moving averages
  bool reduce_range = false;         // one bit less than the dtype has
  // affine_min_max, affine_moving_average_min_max, affine_placeholder
  std::optional<AffineOptions> affine;
  // percentile, per_channel_percentile: percent of the values that are not clipped; > 0, at most
  // 100
  double percentile = 99.99;
  bool operator==(const ObserverChoice&) const = default;
};

struct QuantizationSpec {
  DType dtype = DType::kInt8;
  ObserverChoice observer_or_fake_quant_ctr;
  std::optional<int64_t> quant_min;  // both or neither; default: the dtype's range
  std::optional<int64_t> quant_max;
  std::optional<QScheme> qscheme;
  std::optional<int> ch_axis;  // for per-channel schemes
  bool is_dynamic = false;
  bool operator==(const QuantizationSpec&) const = default;
};

// Uses the observer of another edge or value.
struct SharedQuantizationSpec {
  EdgeOrNode edge_or_node;
  bool operator==(const SharedQuantizationSpec&) const = default;
};

// Scale and zero point are fixed in advance (sigmoid: 1/256 and 0).
struct FixedQParamsQuantizationSpec {
  DType dtype = DType::kUInt8;
  double scale = 1.0;  // > 0
  int64_t zero_point = 0;
  std::optional<int64_t> quant_min;
  std::optional<int64_t> quant_max;
  std::optional<QScheme> qscheme;
  bool is_dynamic = false;
  bool operator==(const FixedQParamsQuantizationSpec&) const = default;
};

// Computes scale and zero point from those of other observers. Has a name ("product_of_scales",
// "sum_of_scales") so that JSON can refer to it.
struct DerivedQParams {
  std::vector<float> scale;
  std::vector<int64_t> zero_point;
};
using DeriveQParamsFn =
    std::function<DerivedQParams(const std::vector<std::shared_ptr<Observer>>&)>;

// Scale and zero point are computed from other observers (int32 bias: scale(x) * scale(w)).
struct DerivedQuantizationSpec {
  std::vector<EdgeOrNode> derived_from;
  std::string derive_name;  // for reports and JSON
  DeriveQParamsFn derive_qparams_fn;
  DType dtype = DType::kInt32;
  std::optional<int64_t> quant_min;
  std::optional<int64_t> quant_max;
  std::optional<QScheme> qscheme;
  std::optional<int> ch_axis;
  bool is_dynamic = false;
};

using SpecVariant = std::variant<QuantizationSpec, SharedQuantizationSpec,
                                 FixedQParamsQuantizationSpec, DerivedQuantizationSpec>;

// Throws Error("annotate", subject, ...) when the spec contradicts itself: quant_min > quant_max, a
// range outside of the dtype, ch_axis < 0 or missing for a per-channel scheme, a scale that is not
// positive and finite.
void check_spec(const SpecVariant& spec, const std::string& subject);

// Which choices to make where Octet and torchao differ: Octet's, or torchao's including its defects
// (annotate/DIFFERENCES.md). Pass the same one to the quantizer, to prepare and to convert.
enum class Compat { kNone, kTorchao };

// "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC": the arguments of torchao's ops
std::string_view name_of(MappingType type);
std::string_view name_of(Granularity::Kind kind);  // "per_tensor", "per_axis", ...

// "per_tensor", "per_axis 0", "per_group 32", "per_block [1, 32]", ...
std::string to_text(const Granularity& granularity);

// The block of elements that share a scale, as a size per dimension, for a tensor of `shape`. By
// torchao's rules; -1 is a size known only at run time.
//   tensor [8, 16]: per tensor [8, 16], per axis 0 [1, 16], per group of 4 [1, 4],
//                   per token and per row [1, 16]
// A per-block granularity with fewer dimensions than the tensor is padded with ones at the front.
// Throws Error("annotate", subject, ...) when the granularity does not divide the shape, names a
// missing dimension, or needs an unknown size.
std::vector<int64_t> block_size_of(const Granularity& granularity, std::span<const int64_t> shape,
                                   const std::string& subject);

// How to reshape a tensor so that each block spans whole dimensions: view(shape), then reduce over
// `dims`. Dimensions spanned by one block disappear from the scales; those with one element per
// block stay.
struct BlockReduction {
  std::vector<int64_t> shape;   // of the view
  std::vector<int64_t> dims;    // dimensions of the view to reduce over
  std::vector<int64_t> scales;  // shape of the scales
};
BlockReduction block_reduction(std::span<const int64_t> block_size, std::span<const int64_t> shape);

}  // namespace octet
