// Reductions, and normalizations by statistics of the input itself over groups of channels.
#include <algorithm>

#include "lowering/import/importer.h"

namespace octet {
namespace {

void emit_reduction(Importer& importer, const Node& node, const char* function,
                    std::vector<int64_t> dims, bool keepdim) {
  const int x = importer.operand(node, "self");
  const DType dtype = importer.tensor(x).dtype;
  const Value* result = node.outputs().front();
  if (!is_floating_point(dtype) || !result->meta || result->meta->dtype != dtype)
    return importer.refuse(node, "of integers, or with another dtype for the result");
  const size_t rank = importer.tensor(x).shape.size();
  for (int64_t& dim : dims) dim = positive_dim(dim, rank);
  if (dims.empty())
    for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  importer.emit(node, "reduce",
                {
                    x
  },
                {{"fn", std::string(function)}, {"dims", dims}, {"keepdim", keepdim}});
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
  if (node.find_argument("other") != nullptr) return importer.refuse(node, "of two tensors");
  if (node.outputs().size() > 1 && !node.outputs().back()->is_unused())
    return importer.refuse(node, "whose indices are used");
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

void emit_group_norm(Importer& importer, const Node& node, int64_t groups) {
  importer.emit(node, "group_norm",
                {
                    importer.operand(node, "input"), importer.operand(node, "weight"),
                    importer.operand(node, "bias")
  },
                {{"groups", groups}, {"eps", node.float_or("eps", 1e-5)}});
}

void import_group_norm(Importer& importer, const Node& node) {
  emit_group_norm(importer, node, node.int_or("num_groups", 1));
}

void import_native_group_norm(Importer& importer, const Node& node) {
  for (size_t i = 1; i < node.outputs().size(); ++i)
    if (!node.outputs()[i]->is_unused()) return importer.refuse(node, "whose statistics are used");
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
    {"aten.sum",               import_sum              },
    {"aten.amax",              import_amax             },
    {"aten.amin",              import_amin             },
    {"aten.max",               import_max              },
    {"aten.min",               import_min              },
    {"aten.prod",              import_prod             },
    {"aten.group_norm",        import_group_norm       },
    {"aten.native_group_norm", import_native_group_norm},
    {"aten.instance_norm",     import_instance_norm    },
};

}  // namespace

std::span<const ImportRow> statistics_import_rows() { return kStatisticsRows; }

}  // namespace octet
