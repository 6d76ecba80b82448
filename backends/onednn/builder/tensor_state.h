// What a segment under construction knows of one tensor of the Program: who reads it, and how it is
// kept.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "backends/onednn/form.h"
#include "lowering/program/program.h"

namespace octet::onednn {

struct DynamicRows;  // backends/onednn/builder/dynamic_rows.h

struct TensorState {
  // The only op of the segment that reads it; null when there are others, or when the tensor leaves
  // the segment.
  const ProgramOp* only_reader = nullptr;
  bool is_read = false;                // by ops of the segment
  bool is_read_channels_last = false;  // by one that works channels-last
  bool is_second_factor = false;       // read only as the second input of matmul

  std::optional<Stored> kept;  // as it is kept now
  // makes it in the usual form when the first op asks for that
  std::function<Stored()> late;
  // the integers that a float tensor was dequantized from
  std::optional<Stored> integers;
  // the integers of a float tensor that was quantized at run time
  std::shared_ptr<const DynamicRows> dynamic;
};

// By tensor of the Program, of those that the segment reads or gives: who reads it in there.
// Nothing is kept yet.
std::map<int, TensorState> tensor_states(const Program& program, const Segment& segment);

}  // namespace octet::onednn
