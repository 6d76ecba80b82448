// Losses that are no composition of other ATen ops.
#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

// -x[target] of each row, times the class's weight; also of images, whose classes are dimension 1.
void import_nll_loss(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self"), weight = s.operand("weight");
  int target = s.operand("target");
  const auto dim = static_cast<int64_t>(s.rank(x) > 1);
  const int zero = s.filled(DType::kInt64, {}, 0);
  const int ignored =
      s.filled(DType::kInt64, {}, static_cast<double>(node.int_or("ignore_index", -100)));
  const int counts = s.compare("ne", target, ignored);
  target = s.where(counts, target, zero);
  const int at = s.unsqueeze(target, dim);
  const int taken = s.op("gather", {x, at}, s.sizes(at), s.dtype(x), {{"dim", dim}});
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
  if (results.size() > 1) importer.alias(results[1], whole);
  s.give(results[0], reduction == kMean ? s.div(total, whole) : total);
}

int reduced(Steps& s, const Node& node, int losses) {
  const int64_t reduction = node.int_or("reduction", kMean);
  if (reduction == kNone) return losses;
  return reduction == kMean ? s.mean(losses, {}, false) : s.reduce("sum", losses, {}, false);
}

// Logarithms are at least -100.
void import_binary_cross_entropy(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self"), target = s.operand("target"), weight = s.operand("weight");
  const int no = s.clamp(s.unary("log1p", s.unary("neg", x)), -100, std::nullopt);
  const int yes = s.clamp(s.unary("log", x), -100, std::nullopt);
  int losses = s.sub(s.mul(s.sub(target, s.number(1, target)), no), s.mul(target, yes));
  if (weight >= 0) losses = s.mul(losses, weight);
  s.give(reduced(s, node, losses));
}

int difference(Steps& s) { return s.sub(s.operand("self"), s.operand("target")); }

void import_mse_loss(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int apart = difference(s);
  s.give(reduced(s, node, s.mul(apart, apart)));
}

// Half of the square up to `edge`, a straight line behind it; `scale` of both.
void emit_rounded_loss(Importer& importer, const Node& node, double edge, double scale) {
  Steps s(importer, node);
  const int apart = s.unary("abs", difference(s));
  const int square = s.mul(s.mul(apart, apart), s.number(0.5 * scale, apart));
  const int line = s.mul(s.sub(apart, s.number(0.5 * edge, apart)), s.number(edge * scale, apart));
  s.give(reduced(s, node, s.where(s.compare("lt", apart, s.number(edge, apart)), square, line)));
}
void import_huber_loss(Importer& importer, const Node& node) {
  emit_rounded_loss(importer, node, node.float_or("delta", 1), 1);
}
void import_smooth_l1_loss(Importer& importer, const Node& node) {
  const double beta = node.float_or("beta", 1);
  if (beta > 0) return emit_rounded_loss(importer, node, beta, 1 / beta);
  Steps s(importer, node);
  s.give(reduced(s, node, s.unary("abs", difference(s))));
}

void import_soft_margin_loss(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self");
  const int margin = s.mul(s.unary("neg", s.cast(s.operand("target"), s.dtype(x))), x);
  s.give(reduced(s, node, s.unary("log1p", s.unary("exp", margin))));
}

constexpr ImportRow kLossRows[] = {
    {"aten.nll_loss_forward", import_nll_loss},
    {"aten.nll_loss2d_forward", import_nll_loss},
    {"aten.binary_cross_entropy", import_binary_cross_entropy},
    {"aten.mse_loss", import_mse_loss},
    {"aten.huber_loss", import_huber_loss},
    {"aten.smooth_l1_loss", import_smooth_l1_loss},
    {"aten.soft_margin_loss", import_soft_margin_loss},
};

}  // namespace

std::span<const ImportRow> loss_import_rows() { return kLossRows; }

}  // namespace octet
