// Imports reductions, normalizations with the input's statistics over groups of channels, and
// losses.
#include <algorithm>

#include "lowering/import/steps.h"

namespace octet {
namespace {

void emit_reduction(Steps& s, const Node& node, const char* function, std::vector<int64_t> dims,
                    bool keepdim) {
  const int x = s.operand("self");
  const Value* result = node.outputs().front();
  const DType dtype = result->meta ? result->meta->dtype : s.dtype(x);
  if (is_complex(s.dtype(x)) || is_complex(dtype)) return s.refuse("of complex numbers");
  if (s.rank(x) == 0) return s.give(x);
  s.give(s.reduce(function, s.whole_first(x, dtype), std::move(dims), keepdim, dtype));
}

void import_reduction(Steps& s, const Node& node) {
  emit_reduction(s, node, s.word(), node.ints_or("dim", {}), node.bool_or("keepdim", false));
}

// Reduces all elements or, with a dimension, gives indices, too.
void import_extreme(Steps& s, const Node& node) {
  const bool is_max = std::string_view(s.word()) == "max";
  if (node.find_argument("other") != nullptr) {
    return s.give(
        s.arithmetic(is_max ? "maximum" : "minimum", s.operand("self"), s.operand("other")));
  }
  if (node.outputs().size() > 1 && !node.outputs()[1]->is_unused())
    import_arg_reduce(s, node, is_max ? "argmax" : "argmin", node.outputs()[1]);
  const Argument* dim = node.find_argument("dim");
  const std::vector<int64_t> dims =
      dim == nullptr ? std::vector<int64_t>{} : std::vector<int64_t>{node.int_or("dim", 0)};
  emit_reduction(s, node, s.word(), dims, node.bool_or("keepdim", false));
}

void import_prod(Steps& s, const Node& node) {
  const Argument* dim = node.find_argument("dim");
  emit_reduction(
      s, node, "prod",
      dim == nullptr ? std::vector<int64_t>{} : std::vector<int64_t>{node.int_or("dim", 0)},
      node.bool_or("keepdim", false));
}

int without_nan(Steps& s, int x) { return s.where(s.compare("ne", x, x), s.number(0, x), x); }
void import_nansum(Steps& s, const Node& node) {
  const int known = without_nan(s, s.operand("self"));
  const Value* result = node.outputs().front();
  const DType dtype = result->meta ? result->meta->dtype : s.dtype(known);
  s.give(s.reduce("sum", s.whole_first(known, dtype), node.ints_or("dim", {}),
                  node.bool_or("keepdim", false), dtype));
}
void import_nanmean(Steps& s, const Node& node) {
  const int x = s.operand("self");
  const std::vector<int64_t> dims = node.ints_or("dim", {});
  const bool keeps = node.bool_or("keepdim", false);
  const int known = s.cast(s.compare("eq", x, x), s.dtype(x));
  s.give(
      s.div(s.reduce("sum", without_nan(s, x), dims, keeps), s.reduce("sum", known, dims, keeps)));
}

void emit_group_norm(Steps& s, const Node& node, int64_t groups) {
  s.emit("group_norm", {s.input("input"), s.input("weight"), s.input("bias")},
         {{attr::kGroups, groups}, {attr::kEps, node.float_or("eps", 1e-5)}});
}

void import_group_norm(Steps& s, const Node& node) {
  emit_group_norm(s, node, node.int_or("num_groups", 1));
}

void import_native_group_norm(Steps& s, const Node& node) {
  const int x = s.operand("input");
  const Sizes sizes = s.sizes(x);
  const std::vector<Value*> results = node.outputs();
  const bool is_used = std::any_of(results.begin() + 1, results.end(),
                                   [](const Value* value) { return !value->is_unused(); });
  if (is_used) {
    SizeExpr count = 1;
    for (size_t d = 1; d < sizes.size(); ++d) count = count * sizes[d];
    const int64_t groups = node.int_or("group", 1);
    import_norm_statistics(
        s, node, s.reshape(x, {sizes[0], SizeExpr(groups), floor_divide(count, groups)}), 1);
  }
  emit_group_norm(s, node, node.int_or("group", 1));
}

// A group norm with one group per channel; with running statistics it would be a batch_norm.
void import_instance_norm(Steps& s, const Node& node) {
  if (!node.bool_or("use_input_stats", true)) return s.refuse("with running statistics");
  if (s.input("running_mean") >= 0)
    return s.refuse("that updates running statistics; export in eval mode");
  const Sizes sizes = s.sizes(s.input("input"));
  if (sizes.size() < 3 || !sizes[1].is_number())
    return s.refuse("of an input without a batch dimension or of unknown channels");
  emit_group_norm(s, node, sizes[1].number());
}

// ---- losses that no other ATen ops compose

enum Reduction : int64_t { kNone, kMean, kSum };

// -x[target] of each row, times the weight of the class. For images, dimension 1 holds the classes.
void import_nll_loss(Steps& s, const Node& node) {
  const int x = s.operand("self"), weight = s.operand("weight");
  int target = s.operand("target");
  const auto dim = static_cast<int64_t>(s.rank(x) > 1);
  const int zero = s.filled(DType::kInt64, {}, 0);
  const int ignored =
      s.filled(DType::kInt64, {}, static_cast<double>(node.int_or("ignore_index", -100)));
  const int counts = s.compare("ne", target, ignored);
  target = s.where(counts, target, zero);
  const int at = s.unsqueeze(target, dim);
  const int taken = s.op("gather", {x, at}, s.sizes(at), s.dtype(x), {{attr::kDim, dim}});
  const int row = s.reshape(taken, s.sizes(target));
  const int share = weight < 0 ? s.filled(s.dtype(x), {}, 1)
                               : s.op("index", {weight, target}, s.sizes(target), s.dtype(x));
  const int shares = s.where(counts, share, s.filled(s.dtype(x), {}, 0));
  const int losses = s.unary("neg", s.mul(row, shares));
  const int64_t reduction = node.int_or("reduction", kMean);
  const auto sum = [&](int values) { return s.reduce("sum", values, {}, false); };
  const std::vector<Value*> results = node.outputs();
  if (reduction == kNone) {
    s.give(results[0], losses);
    if (results.size() > 1) s.give(results[1], s.filled(s.dtype(x), {}, 0));
    return;
  }
  const int whole = sum(s.cast(shares, s.dtype(x))), total = sum(losses);
  if (results.size() > 1) s.alias(results[1], whole);
  s.give(results[0], reduction == kMean ? s.div(total, whole) : total);
}

int reduced(Steps& s, const Node& node, int losses) {
  const int64_t reduction = node.int_or("reduction", kMean);
  if (reduction == kNone) return losses;
  return reduction == kMean ? s.mean(losses, {}, false) : s.reduce("sum", losses, {}, false);
}

// As in torch, logarithms are at least -100.
void import_binary_cross_entropy(Steps& s, const Node& node) {
  const int x = s.operand("self"), target = s.operand("target"), weight = s.operand("weight");
  const int no = s.clamp(s.unary("log1p", s.unary("neg", x)), -100, std::nullopt);
  const int yes = s.clamp(s.unary("log", x), -100, std::nullopt);
  int losses = s.sub(s.mul(s.sub(target, s.number(1, target)), no), s.mul(target, yes));
  if (weight >= 0) losses = s.mul(losses, weight);
  s.give(reduced(s, node, losses));
}

int difference(Steps& s) { return s.sub(s.operand("self"), s.operand("target")); }

void import_mse_loss(Steps& s, const Node& node) {
  const int apart = difference(s);
  s.give(reduced(s, node, s.mul(apart, apart)));
}

// smooth_l1 and huber: half of the square up to `edge`, a straight line beyond; both times `scale`.
void emit_rounded_loss(Steps& s, const Node& node, double edge, double scale) {
  const int apart = s.unary("abs", difference(s));
  const int square = s.mul(s.mul(apart, apart), s.number(0.5 * scale, apart));
  const int line = s.mul(s.sub(apart, s.number(0.5 * edge, apart)), s.number(edge * scale, apart));
  s.give(reduced(s, node, s.where(s.compare("lt", apart, s.number(edge, apart)), square, line)));
}
void import_huber_loss(Steps& s, const Node& node) {
  emit_rounded_loss(s, node, node.float_or("delta", 1), 1);
}
void import_smooth_l1_loss(Steps& s, const Node& node) {
  const double beta = node.float_or("beta", 1);
  if (beta > 0) return emit_rounded_loss(s, node, beta, 1 / beta);
  s.give(reduced(s, node, s.unary("abs", difference(s))));
}

void import_soft_margin_loss(Steps& s, const Node& node) {
  const int x = s.operand("self");
  const int margin = s.mul(s.unary("neg", s.cast(s.operand("target"), s.dtype(x))), x);
  s.give(reduced(s, node, s.unary("log1p", s.unary("exp", margin))));
}

constexpr ImportRow kStatisticsRows[] = {
    {"aten.nll_loss_forward", import_nll_loss},
    {"aten.nll_loss2d_forward", import_nll_loss},
    {"aten.binary_cross_entropy", import_binary_cross_entropy},
    {"aten.mse_loss", import_mse_loss},
    {"aten.huber_loss", import_huber_loss},
    {"aten.smooth_l1_loss", import_smooth_l1_loss},
    {"aten.soft_margin_loss", import_soft_margin_loss},
    {"aten.sum", import_reduction, "sum"},
    {"aten.amax", import_reduction, "max"},
    {"aten.amin", import_reduction, "min"},
    {"aten.max", import_extreme, "max"},
    {"aten.min", import_extreme, "min"},
    {"aten.prod", import_prod},
    {"aten.nansum", import_nansum},
    {"aten.nanmean", import_nanmean},
    {"aten.group_norm", import_group_norm},
    {"aten.native_group_norm", import_native_group_norm},
    {"aten.instance_norm", import_instance_norm},
};

}  // namespace

void import_norm_statistics(Steps& s, const Node& node, int x, int64_t dims) {
  const std::vector<Value*> results = node.outputs();
  const auto is_used = [&](size_t i) { return results.size() > i && !results[i]->is_unused(); };
  if (!is_used(1) && !is_used(2)) return;
  std::vector<int64_t> last;
  for (int64_t d = 1; d <= dims; ++d) last.push_back(-d);
  const int mean = s.mean(x, last), apart = s.sub(x, mean);
  const int variance = s.mean(s.mul(apart, apart), last);
  const int eps = s.number(node.float_or("eps", 1e-5), variance);
  if (is_used(2)) s.give(results[2], s.unary("rsqrt", s.add(variance, eps)));
  if (is_used(1)) s.give(results[1], s.reshape(mean, s.sizes_of(*results[1])));
}

std::span<const ImportRow> statistics_import_rows() { return kStatisticsRows; }

}  // namespace octet
