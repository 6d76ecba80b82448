// Imports resizing of images and 1-dimensional signals.
#include <optional>

#include "lowering/import/steps.h"
#include "lowering/program/resize_scale.h"

namespace octet {
namespace {

// Input steps per output pixel along one dimension; nullopt if they depend on symbols.
std::optional<double> upsample_scale(const SizeExpr& in, const SizeExpr& out,
                                     std::optional<double> factor, bool align_corners) {
  if (factor && *factor > 0 && !align_corners) return 1 / *factor;
  if (!in.is_number() || !out.is_number()) return std::nullopt;
  return resize_scale(align_corners, in.number(), out.number());
}

// Input steps per output pixel, for each dimension; empty if open sizes decide one.
std::vector<double> upsample_scales(const Node& node, const Sizes& in, const Sizes& out) {
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
    if (list != nullptr && list->size() == spatial) factor = (*list)[d];
    if (is_given(node, name)) factor = node.float_or(name, 1);
    const std::optional<double> scale =
        upsample_scale(in[2 + d], out[2 + d], factor, align_corners);
    if (!scale) return {};
    scales.push_back(*scale);
  }
  return scales;
}

// Treats a 1-dimensional signal as an image with one row.
void import_upsample(Steps& s, const Node& node) {
  int x = s.input(node.find_argument("self") != nullptr ? "self" : "input");
  const DType dtype = s.tensor(x).dtype;
  const Sizes in = s.sizes(x), out = s.result_sizes();
  std::vector<double> scales = upsample_scales(node, in, out);
  const bool is_line = in.size() == 3;
  if (is_line) {
    if (!scales.empty()) scales.insert(scales.begin(), 1.0);
    x = s.op("reshape", {x}, {in[0], in[1], 1, in[2]}, dtype);
  }
  Attributes attributes = {{attr::kMode, std::string(s.word())},
                           {attr::kAlignCorners, node.bool_or("align_corners", false)},
                           {attr::kScales, scales}};
  if (is_line) {
    x = s.op("upsample", {x}, {out[0], out[1], 1, out[2]}, dtype, std::move(attributes));
    s.emit("reshape", {x});
  } else {
    s.emit("upsample", {x}, std::move(attributes));
  }
}

constexpr ImportRow kUpsampleRows[] = {
    {"aten.upsample_nearest1d", import_upsample, "nearest"},
    {"aten.upsample_nearest2d", import_upsample, "nearest"},
    {"aten.upsample_nearest3d", import_upsample, "nearest"},
    {"aten.upsample_linear1d", import_upsample, "bilinear"},
    {"aten.upsample_bilinear2d", import_upsample, "bilinear"},
    {"aten.upsample_trilinear3d", import_upsample, "trilinear"},
    {"aten.upsample_bicubic2d", import_upsample, "bicubic"},
    {"aten._upsample_nearest_exact1d", import_upsample, "nearest_exact"},
    {"aten._upsample_nearest_exact2d", import_upsample, "nearest_exact"},
    {"aten._upsample_nearest_exact3d", import_upsample, "nearest_exact"},
    {"aten._upsample_bilinear2d_aa", import_upsample, "bilinear_aa"},
    {"aten._upsample_bicubic2d_aa", import_upsample, "bicubic_aa"},
};

}  // namespace

std::span<const ImportRow> upsample_import_rows() { return kUpsampleRows; }

}  // namespace octet
