// Forms of cells, and the list of all.
#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

constexpr DType kF32 = DType::kFloat32, kI8 = DType::kInt8, kU8 = DType::kUInt8,
                kI16 = DType::kInt16;

const Form kComputeForms[] = {
    {.name = "f32"},
    {.name = "u8", .x = kU8, .zero_point = 121, .y = kU8, .y_zero_point = 131},
    {.name = "i8", .x = kI8, .zero_point = 3, .y = kI8, .y_zero_point = -7},
    {.name = "i8_symmetric", .x = kI8, .y = kI8},
    {.name = "f32_clamped", .low = -0.4, .high = 0.6},
    {.name = "i8_symmetric_relu", .x = kI8, .y = kI8, .low = 0, .high = 0.7},
    {.name = "i8_zero_at_least", .x = kI8, .zero_point = -128, .y = kI8, .y_zero_point = -128},
    {.name = "i8_zero_at_most", .x = kI8, .zero_point = 127, .y = kI8, .y_zero_point = 127},
    {.name = "u8_zero_at_least", .x = kU8, .y = kU8},
    {.name = "u8_zero_at_most", .x = kU8, .zero_point = 255, .y = kU8, .y_zero_point = 255},
    {.name = "u8_saturated",
     .x = kU8,
     .zero_point = 100,
     .y = kU8,
     .y_zero_point = 90,
     .reach = .2},
    {.name = "i8_coarse", .x = kI8, .zero_point = 9, .y = kI8, .y_zero_point = 5, .reach = 20},
    {.name = "i8_clamped", .x = kI8, .y = kI8, .y_zero_point = 4, .low = -0.3, .high = 0.5},
    {.name = "u8_relu", .x = kU8, .zero_point = 128, .y = kU8, .low = 0, .high = 2},
    {.name = "i8_small_scale", .x = kI8, .scale = 3e-5f, .y = kI8},
    {.name = "i8_large_scale", .x = kI8, .scale = 300, .y = kI8},
    {.name = "i8_to_f32", .x = kI8, .zero_point = -11},
    {.name = "u8_to_i8", .x = kU8, .zero_point = 128, .y = kI8, .y_zero_point = 2},
    {.name = "i8_to_u8", .x = kI8, .zero_point = 1, .y = kU8, .y_zero_point = 128},
    {.name = "i16", .x = kI16, .scale = 1e-4f, .y = kI16},
    {.name = "i16_affine",
     .x = kI16,
     .scale = 1e-4f,
     .zero_point = -700,
     .y = kI16,
     .y_zero_point = 9000},
    {.name = "i16_clamped", .x = kI16, .scale = 1e-4f, .y = kI16, .low = -0.3, .high = 0.5},
    {.name = "i16_to_f32", .x = kI16, .scale = 1e-4f, .zero_point = 5},
    {.name = "i16_to_i8", .x = kI16, .scale = 1e-4f, .y = kI8, .y_zero_point = 3},
    {.name = "u8_to_i16", .x = kU8, .zero_point = 128, .y = kI16},
};

const Form kMovementForms[] = {
    {.name = "f32"},
    {.name = "u8", .x = kU8, .zero_point = 121},
    {.name = "i8", .x = kI8, .zero_point = 3},
    {.name = "i8_symmetric", .x = kI8},
    {.name = "i8_zero_at_least", .x = kI8, .zero_point = -128},
    {.name = "u8_zero_at_most", .x = kU8, .zero_point = 255},
    {.name = "i16", .x = kI16, .scale = 1e-4f, .zero_point = -3},
};

constexpr size_t kOpenForms = 4;  // of the forms above

}  // namespace

std::span<const Form> compute_forms() { return kComputeForms; }
std::span<const Form> movement_forms() { return kMovementForms; }
std::span<const Form> float_forms() { return std::span(kMovementForms).first(1); }

void CellList::add_cell(const std::string& kind, std::string name, const Form& form,
                        const Build& build, bool open) {
  const auto make = [form, build, open](uint32_t seed) {
    CellBuilder builder(form, seed, open);
    build(builder);
    return builder.finish();
  };
  cells_.push_back({std::move(name), kind, make, cells_.size() % 3 == 0 ? 2 : 1});
}

void CellList::add(const std::string& kind, const std::string& shape, std::span<const Form> forms,
                   const Build& build, bool open) {
  const std::string start = kind + "/" + shape + "/";
  for (const Form& form : forms) add_cell(kind, start + form.name, form, build, false);
  if (open)
    for (const Form& form : forms.first(std::min(kOpenForms, forms.size())))
      add_cell(kind, start + form.name + ".open", form, build, true);
}

void CellList::add_weighted(const std::string& kind, const std::string& shape, const Build& build,
                            bool open) {
  add(kind, shape, compute_forms(), build, open);
  for (Form form : compute_forms()) {
    if (form.x == kF32) continue;
    form.is_per_channel = true;
    add_cell(kind, kind + "/" + shape + "/" + form.name + ".per_channel", form, build, false);
  }
}

std::vector<Cell> conformance_cells() {
  CellList cells;
  for (void (*add)(CellList&) : {add_products, add_elements, add_windows, add_reductions,
                                 add_movements, add_tables, add_models, add_states})
    add(cells);
  return cells.take();
}

}  // namespace octet::conformance
