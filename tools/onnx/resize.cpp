// Images and lines at other sizes, and at other places.
#include <optional>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

struct ResizeRow {
  std::string_view op;
  const char* mode;
  const char* place;     // coordinate_transformation_mode without align_corners
  const char* rounding;  // nearest_mode
  bool is_smooth;        // torch's antialias
};
constexpr ResizeRow kModes[] = {
    {"aten.upsample_nearest1d", "nearest", "asymmetric", "floor", false},
    {"aten.upsample_nearest2d", "nearest", "asymmetric", "floor", false},
    {"aten.upsample_nearest3d", "nearest", "asymmetric", "floor", false},
    {"aten._upsample_nearest_exact1d", "nearest", "half_pixel", "round_prefer_ceil", false},
    {"aten._upsample_nearest_exact2d", "nearest", "half_pixel", "round_prefer_ceil", false},
    {"aten._upsample_nearest_exact3d", "nearest", "half_pixel", "round_prefer_ceil", false},
    {"aten.upsample_linear1d", "linear", "half_pixel", "", false},
    {"aten.upsample_bilinear2d", "linear", "half_pixel", "", false},
    {"aten.upsample_trilinear3d", "linear", "half_pixel", "", false},
    {"aten.upsample_bicubic2d", "cubic", "half_pixel", "", false},
    {"aten._upsample_bilinear2d_aa", "linear", "half_pixel", "", true},
    {"aten._upsample_bicubic2d_aa", "cubic", "half_pixel", "", true},
};

// The factors of the call; empty where it gives sizes.
std::vector<float> factors_of(const OnnxSteps& s, size_t spatial) {
  static const char* const kNames[3][3] = {
      {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
  std::vector<float> factors;
  const Argument* list = s.node.find_argument("scale_factors");
  if (list != nullptr && list->find<std::vector<double>>() != nullptr)
    for (double factor : *list->find<std::vector<double>>())
      factors.push_back(static_cast<float>(factor));
  for (size_t d = 0; d < spatial; ++d)
    if (s.has(kNames[spatial - 1][d]))
      factors.push_back(static_cast<float>(s.node.float_or(kNames[spatial - 1][d], 1)));
  return factors.size() == spatial ? factors : std::vector<float>();
}

// The sizes of the result: those of the input, then those of the call.
std::string target_sizes(OnnxSteps& s) {
  const TensorMeta& meta = s.meta(s.result());
  if (meta.is_static()) return s.ints(meta.shape());
  const std::string kept = s.op("Shape", {s.x()}, {{"start", int64_t{0}}, {"end", int64_t{2}}});
  return s.op("Concat", {kept, s.sizes("output_size")}, {{"axis", int64_t{0}}});
}

void give_resized(OnnxSteps& s, const ResizeRow& row) {
  if (row.is_smooth && !s.exporter.need(s.node, 18, "a resize with antialias")) return;
  const bool aligns = s.node.bool_or("align_corners", false);
  const std::string place = aligns ? "align_corners" : row.place;
  OnnxAttributes attributes = {{"mode", std::string(row.mode)},
                               {"coordinate_transformation_mode", place}};
  if (*row.rounding != '\0') attributes.emplace_back("nearest_mode", std::string(row.rounding));
  if (std::string(row.mode) == "cubic") attributes.emplace_back("cubic_coeff_a", -0.75f);
  if (row.is_smooth) attributes.emplace_back("antialias", int64_t{1});
  std::vector<float> factors = factors_of(s, s.rank(s.self()) - 2);
  const bool has_factors = !factors.empty() && !aligns;
  factors.insert(factors.begin(), 2, 1.0f);
  const std::string scales =
      has_factors ? s.constant("scales",
                               Tensor::from<float>(DType::kFloat32,
                                                   {static_cast<int64_t>(factors.size())}, factors))
                  : "";
  s.give(s.op("Resize", {s.x(), "", scales, has_factors ? "" : target_sizes(s)},
              std::move(attributes)));
}

void convert_resize(OnnxSteps& s) {
  for (const ResizeRow& row : kModes)
    if (s.node.is(row.op)) return give_resized(s, row);
}

// Pixels at the places of a grid.
void convert_grid_sample(OnnxSteps& s) {
  static const char* const kNames[] = {"bilinear", "nearest", "bicubic"};
  static const char* const kLaterNames[] = {"linear", "nearest", "cubic"};
  static const char* const kBorders[] = {"zeros", "border", "reflection"};
  const size_t mode = static_cast<size_t>(s.node.int_or("interpolation_mode", 0)),
               border = static_cast<size_t>(s.node.int_or("padding_mode", 0));
  if (mode > 2 || border > 2) return s.refuse("of an unknown mode");
  if (s.rank(s.self()) != 4 && !s.exporter.need(s.node, 20, "grids of volumes")) return;
  s.give(s.op("GridSample", {s.x(), s.input("grid")},
              {{"mode", std::string((s.exporter.opset() >= 20 ? kLaterNames : kNames)[mode])},
               {"padding_mode", std::string(kBorders[border])},
               {"align_corners", int64_t{s.node.bool_or("align_corners", false)}}}));
}

constexpr OnnxRow kSampleRows[] = {
    {"aten.grid_sampler", convert_grid_sample},
    {"aten.grid_sampler_2d", convert_grid_sample},
    {"aten.grid_sampler_3d", convert_grid_sample},
    {"aten.upsample_nearest1d", convert_resize},
    {"aten.upsample_nearest2d", convert_resize},
    {"aten.upsample_nearest3d", convert_resize},
    {"aten._upsample_nearest_exact1d", convert_resize},
    {"aten._upsample_nearest_exact2d", convert_resize},
    {"aten._upsample_nearest_exact3d", convert_resize},
    {"aten.upsample_linear1d", convert_resize},
    {"aten.upsample_bilinear2d", convert_resize},
    {"aten.upsample_trilinear3d", convert_resize},
    {"aten.upsample_bicubic2d", convert_resize},
    {"aten._upsample_bilinear2d_aa", convert_resize},
    {"aten._upsample_bicubic2d_aa", convert_resize},
};

}  // namespace

std::span<const OnnxRow> resize_onnx_rows() { return kSampleRows; }

}  // namespace octet
