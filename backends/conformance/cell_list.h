// Collects the cells of `octet conformance`: each op and shape with every combination of dtype,
// scale and clamp (a Form) that the op supports.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/conformance/cell_builder.h"
#include "backends/conformance/cells.h"

namespace octet::conformance {

using Build = std::function<void(CellBuilder&)>;
using Shape = std::vector<int64_t>;

// Forms of ops that compute, of those that copy elements, and of those that take floats alone.
std::span<const Form> compute_forms();
std::span<const Form> movement_forms();
std::span<const Form> float_forms();

class CellList {
 public:
  // A cell for each form: "kind/shape/form". open: one more in each of the first forms, whose first
  // dimension is open. Every third cell runs with two threads.
  void add(const std::string& kind, const std::string& shape, std::span<const Form> forms,
           const Build& build, bool open = false);
  // As above, with weights per tensor and per channel where they are integers.
  void add_weighted(const std::string& kind, const std::string& shape, const Build& build,
                    bool open = false);
  std::vector<Cell> take() { return std::move(cells_); }

 private:
  void add_cell(const std::string& kind, std::string name, const Form& form, const Build& build,
                bool open);
  std::vector<Cell> cells_;
};

void add_products(CellList& cells);
void add_elements(CellList& cells);
void add_windows(CellList& cells);
void add_reductions(CellList& cells);
void add_movements(CellList& cells);
void add_tables(CellList& cells);
void add_models(CellList& cells);
void add_states(CellList& cells);

}  // namespace octet::conformance
