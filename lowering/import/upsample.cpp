// Images and lines at other sizes.
#include <optional>

#include <fmt/format.h>

#include "lowering/import/importer.h"

namespace octet {
namespace {

// Input steps per output pixel along one dimension; nothing when they depend on symbols.
std::optional<double> upsample_scale(const SizeExpr& in, const SizeExpr& out,
                                     std::optional<double> factor, bool align_corners) {
  if (factor && *factor > 0 && !align_corners) return 1 / *factor;
  if (!in.is_number() || !out.is_number()) return std::nullopt;
  if (align_corners)
    return out.number() > 1
               ? static_cast<double>(in.number() - 1) / static_cast<double>(out.number() - 1)
               : 0.0;
  return static_cast<double>(in.number()) / static_cast<double>(out.number());
}

// Input steps per output pixel, per dimension; nothing, with a refusal, when one is not known.
std::optional<std::vector<double>> upsample_scales(Importer& importer, const Node& node,
                                                   const Sizes& in, const Sizes& out) {
  static const char* const kNames[3][3] = {
      {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
  const bool align_corners = node.bool_or("align_corners", false);
  const size_t spatial = in.size() - 2;
  const Argument* factors = node.find_argument("scale_factors");
  const std::vector<double>* list =
      factors == nullptr ? nullptr : factors->find<std::vector<double>>();
  std::vector<double> scales;
  for (size_t d = 0; d < spatial; ++d) {
    std::optional<double> factor;
    const char* name = kNames[spatial - 1][d];
    const Argument* own = node.find_argument(name);
    if (list != nullptr && list->size() == spatial) factor = (*list)[d];
    if (own != nullptr && !own->is_none()) factor = node.float_or(name, 1);
    const std::optional<double> scale =
        upsample_scale(in[2 + d], out[2 + d], factor, align_corners);
    if (!scale) {
      importer.refuse(node, fmt::format("from {} to {} without a scale factor", in[2 + d].to_text(),
                                        out[2 + d].to_text()));
      return std::nullopt;
    }
    scales.push_back(*scale);
  }
  return scales;
}

// A line is an image of one row.
void emit_upsample(Importer& importer, const Node& node, const char* mode) {
  int x = importer.operand(node, node.find_argument("self") != nullptr ? "self" : "input");
  const DType dtype = importer.tensor(x).dtype;
  const Sizes in = importer.sizes(x), out = importer.sizes_of(*node.outputs().front());
  std::optional<std::vector<double>> scales = upsample_scales(importer, node, in, out);
  if (!scales) return;
  const bool is_line = in.size() == 3;
  if (is_line) {
    scales->insert(scales->begin(), 1.0);
    x = importer.emit_step(node, "reshape", {x}, {in[0], in[1], 1, in[2]}, dtype);
  }
  Attributes attributes = {{"mode", std::string(mode)},
                           {"align_corners", node.bool_or("align_corners", false)},
                           {"scales", *scales}};
  if (is_line) {
    x = importer.emit_step(node, "upsample", {x}, {out[0], out[1], 1, out[2]}, dtype,
                           std::move(attributes));
    importer.emit(node, "reshape", {x});
  } else {
    importer.emit(node, "upsample", {x}, std::move(attributes));
  }
}

struct UpsampleRow {
  std::string_view op;
  const char* mode;
};

constexpr UpsampleRow kModes[] = {
    {"aten.upsample_nearest1d", "nearest"},
    {"aten.upsample_nearest2d", "nearest"},
    {"aten.upsample_nearest3d", "nearest"},
    {"aten.upsample_linear1d", "bilinear"},
    {"aten.upsample_bilinear2d", "bilinear"},
    {"aten.upsample_trilinear3d", "trilinear"},
    {"aten.upsample_bicubic2d", "bicubic"},
    {"aten._upsample_nearest_exact1d", "nearest_exact"},
    {"aten._upsample_nearest_exact2d", "nearest_exact"},
    {"aten._upsample_nearest_exact3d", "nearest_exact"},
    {"aten._upsample_bilinear2d_aa", "bilinear_aa"},
    {"aten._upsample_bicubic2d_aa", "bicubic_aa"},
};

void import_upsample(Importer& importer, const Node& node) {
  for (const UpsampleRow& row : kModes)
    if (node.is(row.op)) return emit_upsample(importer, node, row.mode);
}

}  // namespace

std::span<const ImportRow> upsample_import_rows() {
  static const std::vector<ImportRow> rows = [] {
    std::vector<ImportRow> all;
    for (const UpsampleRow& row : kModes) all.push_back({row.op.data(), import_upsample});
    return all;
  }();
  return rows;
}

}  // namespace octet
