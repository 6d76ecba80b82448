// Sums, means, extremes and norms along dimensions.
#include <cmath>
#include <limits>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

// The dimensions of the call; none: all of them.
std::vector<int64_t> axes_of(const OnnxSteps& s, const char* name = "dim") {
  std::vector<int64_t> axes;
  if (!s.has(name) || s.rank(s.self()) == 0) return axes;
  for (int64_t dim : s.node.ints_or(name, {}))
    axes.push_back(static_cast<int64_t>(s.dim_of(s.self(), dim)));
  return axes;
}
bool keeps_dim(const OnnxSteps& s) { return s.node.bool_or("keepdim", false); }

void give_reduced(OnnxSteps& s, const char* type) {
  s.give(s.reduce(type, s.cast(s.self(), s.dtype(s.result())), axes_of(s), keeps_dim(s)));
}
void convert_sum(OnnxSteps& s) { give_reduced(s, "ReduceSum"); }
void convert_mean(OnnxSteps& s) { give_reduced(s, "ReduceMean"); }
void convert_amax(OnnxSteps& s) { give_reduced(s, "ReduceMax"); }
void convert_amin(OnnxSteps& s) { give_reduced(s, "ReduceMin"); }
void convert_prod(OnnxSteps& s) { give_reduced(s, "ReduceProd"); }
void convert_logsumexp(OnnxSteps& s) { give_reduced(s, "ReduceLogSumExp"); }

// max and min: of all, of two tensors, or along a dimension with their places.
void give_extreme(OnnxSteps& s, const char* reduction, const char* binary, const char* place) {
  const DType dtype = s.dtype(s.result());
  if (s.has("other"))
    return s.give(s.op(binary, {s.cast(s.self(), dtype), s.operand("other", dtype)}));
  const std::vector<Value*> results = s.node.outputs();
  s.give(s.reduce(reduction, s.x(), axes_of(s), keeps_dim(s)));
  if (results.size() < 2 || results[1]->is_unused()) return;
  s.give(results[1],
         s.op(place, {s.x()}, {{"axis", axes_of(s).at(0)}, {"keepdims", int64_t{keeps_dim(s)}}}));
}
void convert_max(OnnxSteps& s) { give_extreme(s, "ReduceMax", "Max", "ArgMax"); }
void convert_min(OnnxSteps& s) { give_extreme(s, "ReduceMin", "Min", "ArgMin"); }

// Whether any, or every, element is other than 0.
void give_truth(OnnxSteps& s, const char* type) {
  const std::string flags = s.cast(s.cast(s.self(), DType::kBool), DType::kInt32);
  s.give(s.cast(s.reduce(type, flags, axes_of(s), keeps_dim(s)), DType::kBool));
}
void convert_any(OnnxSteps& s) { give_truth(s, "ReduceMax"); }
void convert_all(OnnxSteps& s) { give_truth(s, "ReduceMin"); }

// ---- norms

void convert_vector_norm(OnnxSteps& s) {
  const double order = s.node.float_or(s.has("ord") ? "ord" : "p", 2);
  const std::string x = s.cast(s.self(), s.dtype(s.result()));
  const std::vector<int64_t> axes = axes_of(s);
  if (order == 2) return s.give(s.reduce("ReduceL2", x, axes, keeps_dim(s)));
  if (order == 1) return s.give(s.reduce("ReduceL1", x, axes, keeps_dim(s)));
  const std::string size = s.op("Abs", {x});
  if (std::isinf(order))
    return s.give(s.reduce(order > 0 ? "ReduceMax" : "ReduceMin", size, axes, keeps_dim(s)));
  if (order == 0) return s.refuse("of order 0");
  const std::string powers = s.op("Pow", {size, s.number(order)});
  s.give(s.op("Pow", {s.reduce("ReduceSum", powers, axes, keeps_dim(s)), s.number(1 / order)}));
}

// ---- variance

// How many elements a variance is of; nothing, with a refusal, when sizes are open.
std::optional<double> element_count(OnnxSteps& s, const std::vector<int64_t>& axes) {
  double count = 1;
  for (size_t d = 0; d < s.rank(s.self()); ++d) {
    const bool is_reduced =
        axes.empty() || std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!is_reduced) continue;
    const std::optional<int64_t> size = s.fixed_size(s.self(), d);
    if (!size) return std::nullopt;
    count *= static_cast<double>(*size);
  }
  return count;
}

double correction(const OnnxSteps& s) {
  if (s.has("correction")) return s.node.float_or("correction", 1);
  return s.node.bool_or("unbiased", true) ? 1 : 0;
}

// "" after a refusal.
std::string variance(OnnxSteps& s, const std::string& mean) {
  const std::vector<int64_t> axes = axes_of(s);
  const std::optional<double> count = element_count(s, axes);
  if (!count) return "";
  const std::string away = s.sub(s.x(), mean);
  const std::string sum = s.reduce("ReduceSum", s.mul(away, away), axes, keeps_dim(s));
  return s.div(sum, s.number(std::max(*count - correction(s), 0.0), s.dtype(s.self())));
}

std::string mean_kept(OnnxSteps& s) { return s.reduce("ReduceMean", s.x(), axes_of(s), true); }

void give_variance(OnnxSteps& s, bool is_root) {
  const std::string spread = variance(s, mean_kept(s));
  if (spread.empty()) return;
  s.give(is_root ? s.op("Sqrt", {spread}) : spread);
  if (s.node.outputs().size() > 1)
    s.give(s.node.outputs()[1], s.reduce("ReduceMean", s.x(), axes_of(s), keeps_dim(s)));
}
void convert_var(OnnxSteps& s) { give_variance(s, false); }
void convert_std(OnnxSteps& s) { give_variance(s, true); }

constexpr OnnxRow kReductionRows[] = {
    {"aten.sum", convert_sum},
    {"aten.mean", convert_mean},
    {"aten.amax", convert_amax},
    {"aten.amin", convert_amin},
    {"aten.prod", convert_prod},
    {"aten.logsumexp", convert_logsumexp},
    {"aten.max", convert_max},
    {"aten.min", convert_min},
    {"aten.any", convert_any},
    {"aten.all", convert_all},
    {"aten.norm", convert_vector_norm},
    {"aten.linalg_vector_norm", convert_vector_norm},
    {"aten.frobenius_norm", convert_vector_norm},
    {"aten.var", convert_var},
    {"aten.var_mean", convert_var},
    {"aten.std", convert_std},
    {"aten.std_mean", convert_std},
};

}  // namespace

std::span<const OnnxRow> reduction_onnx_rows() { return kReductionRows; }

}  // namespace octet
