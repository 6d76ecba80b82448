// Reductions, and normalizations by statistics of the input itself over groups of channels.
#include <algorithm>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

void emit_reduction(Importer& importer, const Node& node, const char* function,
                    std::vector<int64_t> dims, bool keepdim) {
  Steps s(importer, node);
  const int x = s.operand("self");
  const Value* result = node.outputs().front();
  const DType dtype = result->meta ? result->meta->dtype : s.dtype(x);
  if (is_complex(s.dtype(x)) || is_complex(dtype))
    return importer.refuse(node, "of complex numbers");
  if (s.rank(x) == 0) return s.give(x);
  s.give(s.reduce(function, s.whole_first(x, dtype), std::move(dims), keepdim, dtype));
}

void import_sum(Importer& importer, const Node& node) {
  emit_reduction(importer, node, "sum", node.ints_or("dim", {}), node.bool_or("keepdim", false));
}
void import_amax(Importer& importer, const Node& node) {
  emit_reduction(importer, node, "max", node.ints_or("dim", {}), node.bool_or("keepdim", false));
}
void import_amin(Importer& importer, const Node& node) {
  emit_reduction(importer, node, "min", node.ints_or("dim", {}), node.bool_or("keepdim", false));
}

// Over everything or, with a dimension, with indices.
void emit_extreme(Importer& importer, const Node& node, const char* function) {
  const bool is_max = std::string_view(function) == "max";
  if (node.find_argument("other") != nullptr) {
    Steps s(importer, node);
    return s.give(
        s.arithmetic(is_max ? "maximum" : "minimum", s.operand("self"), s.operand("other")));
  }
  if (node.outputs().size() > 1 && !node.outputs()[1]->is_unused())
    import_arg_reduce(importer, node, is_max ? "argmax" : "argmin", node.outputs()[1]);
  const Argument* dim = node.find_argument("dim");
  const std::vector<int64_t> dims =
      dim == nullptr ? std::vector<int64_t>{} : std::vector<int64_t>{node.int_or("dim", 0)};
  emit_reduction(importer, node, function, dims, node.bool_or("keepdim", false));
}

void import_max(Importer& importer, const Node& node) { emit_extreme(importer, node, "max"); }
void import_min(Importer& importer, const Node& node) { emit_extreme(importer, node, "min"); }
void import_prod(Importer& importer, const Node& node) {
  const Argument* dim = node.find_argument("dim");
  emit_reduction(
      importer, node, "prod",
      dim == nullptr ? std::vector<int64_t>{} : std::vector<int64_t>{node.int_or("dim", 0)},
      node.bool_or("keepdim", false));
}

int without_nan(Steps& s, int x) { return s.where(s.compare("ne", x, x), s.number(0, x), x); }
void import_nansum(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int known = without_nan(s, s.operand("self"));
  const Value* result = node.outputs().front();
  const DType dtype = result->meta ? result->meta->dtype : s.dtype(known);
  s.give(s.reduce("sum", s.whole_first(known, dtype), node.ints_or("dim", {}),
                  node.bool_or("keepdim", false), dtype));
}
void import_nanmean(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self");
  const std::vector<int64_t> dims = node.ints_or("dim", {});
  const bool keeps = node.bool_or("keepdim", false);
  const int known = s.cast(s.compare("eq", x, x), s.dtype(x));
  s.give(
      s.div(s.reduce("sum", without_nan(s, x), dims, keeps), s.reduce("sum", known, dims, keeps)));
}

void emit_group_norm(Importer& importer, const Node& node, int64_t groups) {
  importer.emit(node, "group_norm",
                {importer.operand(node, "input"), importer.operand(node, "weight"),
                 importer.operand(node, "bias")},
                {{"groups", groups}, {"eps", node.float_or("eps", 1e-5)}});
}

void import_group_norm(Importer& importer, const Node& node) {
  emit_group_norm(importer, node, node.int_or("num_groups", 1));
}

void import_native_group_norm(Importer& importer, const Node& node) {
  Steps s(importer, node);
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
        importer, node, s.reshape(x, {sizes[0], SizeExpr(groups), floor_divide(count, groups)}), 1);
  }
  emit_group_norm(importer, node, node.int_or("group", 1));
}

// Each channel is a group; with running statistics it is a batch_norm.
void import_instance_norm(Importer& importer, const Node& node) {
  if (!node.bool_or("use_input_stats", true))
    return importer.refuse(node, "with running statistics");
  if (importer.operand(node, "running_mean") >= 0)
    return importer.refuse(node, "that updates running statistics; export in eval mode");
  const Sizes sizes = importer.sizes(importer.operand(node, "input"));
  if (sizes.size() < 3 || !sizes[1].is_number())
    return importer.refuse(node, "of an input without a batch dimension or of unknown channels");
  emit_group_norm(importer, node, sizes[1].number());
}

constexpr ImportRow kStatisticsRows[] = {
    {"aten.sum", import_sum},
    {"aten.amax", import_amax},
    {"aten.amin", import_amin},
    {"aten.max", import_max},
    {"aten.min", import_min},
    {"aten.prod", import_prod},
    {"aten.nansum", import_nansum},
    {"aten.nanmean", import_nanmean},
    {"aten.group_norm", import_group_norm},
    {"aten.native_group_norm", import_native_group_norm},
    {"aten.instance_norm", import_instance_norm},
};

}  // namespace

void import_norm_statistics(Importer& importer, const Node& node, int x, int64_t dims) {
  const std::vector<Value*> results = node.outputs();
  const auto is_used = [&](size_t i) { return results.size() > i && !results[i]->is_unused(); };
  if (!is_used(1) && !is_used(2)) return;
  Steps s(importer, node);
  std::vector<int64_t> last;
  for (int64_t d = 1; d <= dims; ++d) last.push_back(-d);
  const int mean = s.mean(x, last), apart = s.sub(x, mean);
  const int variance = s.mean(s.mul(apart, apart), last);
  const int eps = s.number(node.float_or("eps", 1e-5), variance);
  if (is_used(2)) s.give(results[2], s.unary("rsqrt", s.add(variance, eps)));
  if (is_used(1)) s.give(results[1], s.reshape(mean, importer.sizes_of(*results[1])));
}

std::span<const ImportRow> statistics_import_rows() { return kStatisticsRows; }

}  // namespace octet
