// Writes sums, means and extremes along dimensions, normalizations and softmax.
#include "tools/onnx/steps.h"

namespace octet {
namespace {

bool keeps_dim(const OnnxSteps& s) { return s.source.get(attr::kKeepdim); }

void write_mean(OnnxSteps& s) {
  s.give(s.reduce("ReduceMean", s.x(0, s.dtype()), s.dims(), keeps_dim(s)));
}

struct ReduceRow {
  std::string_view function;
  const char* type;
};
constexpr ReduceRow kReductions[] = {
    {"sum", "ReduceSum"},   {"max", "ReduceMax"}, {"min", "ReduceMin"},
    {"prod", "ReduceProd"}, {"any", "ReduceMax"}, {"all", "ReduceMin"},
};

void write_reduce(OnnxSteps& s) {
  const std::string function = s.source.get(attr::kFn);
  const bool is_truth = s.dtype() == DType::kBool;
  std::string x = s.x(0, s.dtype());
  if (is_truth) x = s.cast(x, DType::kInt32);
  for (const ReduceRow& row : kReductions) {
    if (function != row.function) continue;
    const std::string y = s.reduce(row.type, x, s.dims(), keeps_dim(s));
    return s.give(is_truth ? s.cast(y, DType::kBool) : y);
  }
  s.refuse("");
}

// ---- norms

OnnxAttributes epsilon(const OnnxSteps& s) {
  return {{"epsilon", static_cast<float>(s.source.get(attr::kEps))}};
}

// A weight or bias, or the constant that an absent one stands for.
std::string given_or(OnnxSteps& s, size_t input, double value, const std::vector<int64_t>& shape) {
  return s.has(input) ? s.x(input) : s.filled(value, shape, s.in().dtype);
}

std::vector<int64_t> last_sizes(const OnnxSteps& s, int64_t count) {
  const std::vector<int64_t>& shape = s.in().shape;
  return {shape.end() - count, shape.end()};
}

void write_batch_norm(OnnxSteps& s) {
  const std::vector<int64_t> channels = s.in(1).shape;
  s.give(s.op("BatchNormalization",
              {s.x(), given_or(s, 3, 1, channels), given_or(s, 4, 0, channels), s.x(1), s.x(2)},
              epsilon(s)));
}

void write_layer_norm(OnnxSteps& s) {
  const int64_t dims = s.source.get(attr::kNormalizedDims);
  OnnxAttributes attributes = epsilon(s);
  attributes.insert(attributes.begin(), {"axis", -dims});
  s.give(s.op("LayerNormalization", {s.x(), given_or(s, 1, 1, last_sizes(s, dims)), s.x(2)},
              std::move(attributes)));
}

// x / sqrt(mean(x * x) + eps) * weight
void write_rms_norm(OnnxSteps& s) {
  std::vector<int64_t> axes;
  for (int64_t d = s.source.get(attr::kNormalizedDims); d > 0; --d) axes.push_back(-d);
  const std::string x = s.x();
  const std::string mean = s.reduce("ReduceMean", s.mul(x, x), axes, true);
  const std::string y = s.div(x, s.op("Sqrt", {s.add(mean, s.number(s.source.get(attr::kEps)))}));
  s.give(s.has(1) ? s.mul(y, s.x(1)) : y);
}

// Writes groups as channels of an instance norm; weight and bias of the channels follow.
void write_group_norm(OnnxSteps& s) {
  const size_t rank = s.rank();
  const int64_t groups = s.source.get(attr::kGroups), channels = s.in().shape[1];
  if (groups == channels && rank > 2)
    return s.give(s.op("InstanceNormalization",
                       {s.x(), given_or(s, 1, 1, {channels}), given_or(s, 2, 0, {channels})},
                       epsilon(s)));
  const std::string apart = s.reshape(s.x(), {0, groups, -1});
  const DType dtype = s.in().dtype;
  const std::string normal =
      s.op("InstanceNormalization",
           {apart, s.filled(1, {groups}, dtype), s.filled(0, {groups}, dtype)}, epsilon(s));
  ProgramTensor grouped = s.in();
  grouped.sizes = {sizes_of(s.in())[0], SizeExpr(groups), SizeExpr(-1)};
  std::string y = s.reshaped(normal, grouped, s.out());
  std::vector<int64_t> axes = counted(rank - 1);
  axes.erase(axes.begin());
  if (s.has(1)) y = s.mul(y, s.unsqueeze(s.x(1), axes));
  if (s.has(2)) y = s.add(y, s.unsqueeze(s.x(2), axes));
  s.give(y);
}

// ---- softmax

// masked: a row of only -inf gives zeros, where ONNX gives NaN.
void write_softmax(OnnxSteps& s) {
  const bool is_log = s.source.is("log_softmax");
  if (s.rank() == 0) return s.give(s.number(is_log ? 0 : 1));
  const std::string y =
      s.op(is_log ? "LogSoftmax" : "Softmax", {s.x(0, s.dtype())}, {{"axis", s.dim(s.rank())}});
  s.give(s.source.get(attr::kMasked) ? s.op("Where", {s.op("IsNaN", {y}), s.number(0), y}) : y);
}

constexpr OnnxRow kReductionRows[] = {
    {"mean", write_mean},
    {"reduce", write_reduce},
    {"batch_norm", write_batch_norm},
    {"layer_norm", write_layer_norm},
    {"rms_norm", write_rms_norm},
    {"group_norm", write_group_norm},
    {"softmax", write_softmax},
    {"log_softmax", write_softmax},
};

}  // namespace

std::span<const OnnxRow> reduction_onnx_rows() { return kReductionRows; }

}  // namespace octet
