// Packs weights in panels, and assigns memory to each step. The products of all inputs were
// computed before, by one linear op over all time steps. What remains depends on the step before:
//
//   step t:   [h(t-1)] x panels of the hidden weights + the input's part of step t
//             -> gates -> c(t), h(t) -> (projection) -> output t
//
// Threads share the batch, which needs no synchronization within a layer, or with a small batch the
// units of a step, which needs it after each step.
#include "backends/kernels/recurrent_layer.h"

#include <cmath>
#include <cstring>
#include <new>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/program/recurrent.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

enum Input : size_t { kGates, kWeights, kBias, kHidden, kCellState, kProjectionWeights };

// Float matrices up to this size stay in the L2 cache beside other data and need no conversion.
constexpr int64_t kNearBytes = 384 << 10;
// With more rows, the integers would be converted again for each tile of rows.
constexpr int64_t kMostRowsOfIntegers = 4;
// Multiplications per step that repay splitting its units into parts.
constexpr int64_t kLargeStep = 1 << 19;
// With this many batch entries, these are the parts: they synchronize once, not at each step.
constexpr int64_t kLargeBatch = 16;

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte> aligned_zeros(size_t bytes) {
  void* memory = ::operator new(bytes, kAlignment);
  std::memset(memory, 0, bytes);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                    [](std::byte* p) { ::operator delete(p, kAlignment); });
}

int64_t whole(int64_t value, int64_t step) { return (value + step - 1) / step; }

// Calls body(row of the weights, panel, gate, lane).
template <typename Body>
void for_each_row(int64_t units, int64_t gates, const Body& body) {
  const int64_t lanes = recurrent_panel_units();
  for (int64_t gate = 0; gate < gates; ++gate)
    for (int64_t unit = 0; unit < units; ++unit)
      body(gate * units + unit, unit / lanes, gate, unit % lanes);
}

int64_t panel_elements(int64_t units, int64_t gates, int64_t depth) {
  const int64_t lanes = recurrent_panel_units();
  return whole(units, lanes) * whole(depth, kRecurrentDepth) * kRecurrentDepth * gates * lanes;
}

// Packs the matrix in panels (recurrent_kernels.h). values: all its elements.
template <typename T>
PackedBlock pack_panels(const T* values, int64_t units, int64_t gates, int64_t depth) {
  const int64_t lanes = recurrent_panel_units(), groups = whole(depth, kRecurrentDepth),
                together = sizeof(T) == 1 ? kRecurrentDepth : 1;  // of the depth, for one lane
  const size_t bytes = static_cast<size_t>(panel_elements(units, gates, depth)) * sizeof(T);
  PackedBlock block = {aligned_zeros(bytes), bytes};
  T* const to = reinterpret_cast<T*>(block.bytes.get());
  for_each_row(units, gates, [&](int64_t row, int64_t panel, int64_t gate, int64_t lane) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t place = panel * groups * kRecurrentDepth / together + k / together;
      to[((place * gates + gate) * lanes + lane) * together + k % together] =
          values[row * depth + k];
    }
  });
  return block;
}

}  // namespace

Verdict RecurrentLayer::check(const Program& program, const ProgramOp& op) {
  struct Row {
    size_t input;
    const char* name;
  };
  for (const Row& row :
       {Row{kWeights, "weight"}, Row{kBias, "bias"}, Row{kProjectionWeights, "projection"}})
    if (op.has_input(row.input) && !program.input(op, row.input).is_constant())
      return Verdict::refuse(fmt::format("the {} is not constant", row.name));
  for (const std::vector<int>& tensors : {op.inputs, op.outputs})
    for (int index : tensors)
      if (index >= 0 && program.tensor(index).dtype != DType::kFloat32)
        return Verdict::refuse(fmt::format("{} is {}, want float32", program.tensor(index).name,
                                           name_of(program.tensor(index).dtype)));
  return Verdict::accept();
}

int64_t RecurrentLayer::Matrix::panels_count() const {
  return whole(units, recurrent_panel_units());
}

int64_t RecurrentLayer::Matrix::elements_per_panel() const {
  return gates * depth * recurrent_panel_units();
}

RecurrentLayer::Matrix RecurrentLayer::pack(const ProgramTensor& weights, const ProgramTensor* bias,
                                            std::string_view cell, int64_t gates, int64_t batch,
                                            const KeepPacked& keep) {
  Matrix m;
  m.gates = gates;
  m.units = weights.shape[0] / gates;
  m.depth = weights.shape[1];
  const bool may_stay = batch <= kMostRowsOfIntegers &&
                        weights.numel() * static_cast<int64_t>(sizeof(float)) > kNearBytes;
  const std::optional<std::vector<float>> scales =
      may_stay ? find_row_scales(weights) : std::nullopt;
  m.has_integers = scales.has_value();
  m.loop = find_recurrent_loop(cell, m.has_integers);
  const int64_t lanes = recurrent_panel_units();
  const size_t vectors = static_cast<size_t>(m.panels_count() * gates * lanes);
  m.bias.assign(vectors, 0.0f);
  m.scale.assign(m.has_integers ? vectors : 0, 0.0f);
  const Tensor biases = bias == nullptr ? Tensor() : constant_data(*bias).contiguous();
  for_each_row(m.units, gates, [&](int64_t row, int64_t panel, int64_t gate, int64_t lane) {
    const size_t at = static_cast<size_t>((panel * gates + gate) * lanes + lane);
    if (biases.defined()) m.bias[at] = biases.data<float>()[row];
    if (scales) m.scale[at] = std::ldexp((*scales)[static_cast<size_t>(row)], -24);
  });
  const auto make = [&] {
    const Tensor values =
        (m.has_integers ? weights.stored->integers() : constant_data(weights)).contiguous();
    return m.has_integers ? pack_panels(values.data<int8_t>(), m.units, gates, m.depth)
                          : pack_panels(values.data<float>(), m.units, gates, m.depth);
  };
  const std::string form = fmt::format("recurrent, {} gates, {} units, {}", gates, lanes,
                                       m.has_integers ? "integers" : "floats");
  const size_t bytes = static_cast<size_t>(panel_elements(m.units, gates, m.depth)) *
                       (m.has_integers ? sizeof(int8_t) : sizeof(float));
  m.panels = keep ? keep(weights, form, bytes, make) : make().bytes;
  return m;
}

RecurrentLayer::RecurrentLayer(const Program& program, const ProgramOp& op, const KeepPacked& keep)
    : steps_(program.input(op, kGates).shape[0]),
      batch_(program.input(op, kGates).shape[1]),
      is_reverse_(op.get(attr::kReverse)) {
  const RecurrentCell* cell = find_recurrent_cell(op);
  OCTET_ASSERT(cell != nullptr, "the op was accepted");
  const ProgramTensor* bias = op.has_input(kBias) ? &program.input(op, kBias) : nullptr;
  weights_ = pack(program.input(op, kWeights), bias, cell->name, cell->gates, batch_, keep);
  if (op.has_input(kProjectionWeights))
    projection_ =
        pack(program.input(op, kProjectionWeights), nullptr, kProjection, 1, batch_, keep);
}

size_t RecurrentLayer::scratch_bytes() const {
  return projection_.panels ? static_cast<size_t>(batch_ * weights_.units) * sizeof(float) : 0;
}

bool RecurrentLayer::cuts_units() const {
  return batch_ < kLargeBatch &&
         batch_ * weights_.panels_count() * weights_.elements_per_panel() >= kLargeStep;
}

void RecurrentLayer::run(std::span<const std::byte* const> from, std::span<std::byte* const> to,
                         std::byte* scratch, const Parallel& parallel) const {
  const auto input = [&](size_t i) {
    return i < from.size() ? reinterpret_cast<const float*>(from[i]) : nullptr;
  };
  const Memory memory = {input(0),
                         input(1),
                         input(2),
                         reinterpret_cast<float*>(to[0]),
                         to.size() > 1 ? reinterpret_cast<float*>(to[1]) : nullptr,
                         reinterpret_cast<float*>(scratch)};
  const int64_t panels = weights_.panels_count(),
                projected = projection_.panels ? projection_.panels_count() : 0;
  const Part all = {0, batch_};
  if (!cuts_units()) {
    const int64_t elements = steps_ * (panels * weights_.elements_per_panel() +
                                       projected * projection_.elements_per_panel());
    return parallel.evenly(batch_, elements, [&](int64_t first, int64_t last) {
      begin(memory, {first, last});
      for (int64_t number = 0; number < steps_; ++number) {
        step(memory, number, {first, last}, {0, panels});
        if (projected > 0) project(memory, number, {first, last}, {0, projected});
      }
    });
  }
  begin(memory, all);
  for (int64_t number = 0; number < steps_; ++number) {
    parallel.evenly(panels, batch_ * weights_.elements_per_panel(),
                    [&](int64_t first, int64_t last) { step(memory, number, all, {first, last}); });
    if (projected > 0)
      parallel.evenly(
          projected, batch_ * projection_.elements_per_panel(),
          [&](int64_t first, int64_t last) { project(memory, number, all, {first, last}); });
  }
}

void RecurrentLayer::begin(const Memory& memory, Part rows) const {
  if (memory.c == nullptr) return;
  const int64_t first = rows.first * weights_.units,
                count = (rows.last - rows.first) * weights_.units;
  std::memcpy(memory.c + first, memory.c0 + first, static_cast<size_t>(count) * sizeof(float));
}

void RecurrentLayer::step(const Memory& memory, int64_t number, Part rows, Part panels) const {
  const int64_t width = batch_ * weights_.depth, t = is_reverse_ ? steps_ - 1 - number : number,
                before = is_reverse_ ? t + 1 : t - 1;
  weights_.loop({number == 0 ? memory.h0 : memory.y + before * width, weights_.panels.get(),
                 weights_.scale.data(), weights_.bias.data(),
                 memory.gates + t * batch_ * weights_.gates * weights_.units, memory.c,
                 projection_.panels ? memory.scratch : memory.y + t * width, weights_.depth,
                 weights_.units, rows.first, rows.last, panels.first, panels.last});
}

void RecurrentLayer::project(const Memory& memory, int64_t number, Part rows, Part panels) const {
  const int64_t t = is_reverse_ ? steps_ - 1 - number : number;
  projection_.loop({memory.scratch, projection_.panels.get(), projection_.scale.data(),
                    projection_.bias.data(), nullptr, nullptr,
                    memory.y + t * batch_ * projection_.units, projection_.depth, projection_.units,
                    rows.first, rows.last, panels.first, panels.last});
}

}  // namespace octet
