// Recurrent layers: all time steps of a direction in one loop (backends/common/recurrent_layer.h).
#include "backends/common/recurrent_layer.h"

#include <memory>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/ops.h"
#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/packed.h"

namespace octet::onednn {
namespace {

// One copy for all segments.
std::shared_ptr<std::byte> keep_packed(const ProgramTensor& weights, const std::string& form,
                                       size_t bytes, const std::function<PackedBlock()>& pack) {
  const PackedForm own = {form, {}, {}, bytes};
  return weights.stored ? find_or_pack(*weights.stored, own, pack)
                        : find_or_pack(weights.data, own, pack);
}

// Arguments: the input's gates, hidden state before the first step, y, scratch memory; of lstm the
// cell states before the first and after the last step.
Loop layer_loop(std::shared_ptr<const RecurrentLayer> layer, bool has_cell) {
  return [layer = std::move(layer), has_cell](std::byte* const* arguments) {
    const auto at = [&](size_t i) { return reinterpret_cast<float*>(arguments[i]); };
    const RecurrentMemory memory = {
        at(0), at(1), has_cell ? at(4) : nullptr, at(2), has_cell ? at(5) : nullptr, at(3)};
    layer->run(memory, [](int64_t count, int64_t elements, const auto& body) {
      for_parts(count, elements, body);
    });
  };
}

}  // namespace

void emit_recurrent(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& p = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const bool has_cell = op.outputs.size() > 1;
  const int64_t batch = yt.shape[1], width = yt.shape[2],
                hidden = has_cell ? builder.tensor(op.outputs[1]).shape[1] : width;
  const Stored given = to_real(builder, op.inputs[0], row_major(p.shape));
  const Stored h0 = to_real(builder, op.inputs[3], {width, 1});
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const Stored scratch = builder.allocate({batch, hidden}, {}, {hidden, 1});
  std::vector<Place> places = {given.place, h0.place, y.place, scratch.place};
  Stored state;
  if (has_cell) {
    state = builder.allocate({batch, hidden}, {}, {hidden, 1});
    places.push_back(to_real(builder, op.inputs[4], {hidden, 1}).place);
    places.push_back(state.place);
  }
  // without packed weights there is nothing that could be refused
  if (builder.purpose() == SegmentBuilder::Purpose::kRun)
    builder.add_loop(
        "recurrent",
        layer_loop(std::make_shared<const RecurrentLayer>(builder.program(), op, keep_packed),
                   has_cell),
        places);
  builder.define(op.outputs[0], y);
  if (has_cell) builder.define(op.outputs[1], state);
}

}  // namespace octet::onednn
