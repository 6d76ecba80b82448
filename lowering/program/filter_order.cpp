// Reorders constant filters between row-major and channels-last.
#include "lowering/program/filter_order.h"

#include <algorithm>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr size_t kLeastRank = 3, kGreatestRank = 5;

// Calls visit(segment, op, position of the input, tensor index) for every constant that an op
// reads.
template <typename Visit>
void for_each_read(const Program& program, const Visit& visit) {
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] >= 0 && program.tensor(op.inputs[i]).is_constant())
          visit(segment, op, i, static_cast<size_t>(op.inputs[i]));
    }
}

}  // namespace

bool can_be_channels_last(std::span<const int64_t> shape) {
  return shape.size() >= kLeastRank && shape.size() <= kGreatestRank;
}

std::vector<int64_t> channels_last_shape(std::span<const int64_t> shape) {
  OCTET_ASSERT(can_be_channels_last(shape), "channels-last needs rank 3 to 5");
  std::vector<int64_t> moved(shape.begin(), shape.end());
  std::rotate(moved.begin() + 1, moved.begin() + 2, moved.end());
  return moved;
}

bool is_channels_last(const Tensor& tensor) {
  if (!can_be_channels_last(tensor.shape()) || tensor.is_contiguous()) return false;
  const Tensor moved(tensor.storage(), tensor.dtype(), channels_last_shape(tensor.shape()),
                     channels_last_shape(tensor.strides()), tensor.offset());
  return moved.is_contiguous();
}

Tensor from_channels_last(const Tensor& stored) {
  OCTET_ASSERT(stored.is_contiguous() && can_be_channels_last(stored.shape()),
               "a contiguous tensor of rank 3 to 5");
  std::vector<int64_t> shape = stored.shape(), strides = contiguous_strides(stored.shape());
  std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return Tensor(stored.storage(), stored.dtype(), std::move(shape), std::move(strides),
                stored.offset());
}

Tensor as_channels_last(const Tensor& tensor) {
  return Tensor(tensor.storage(), tensor.dtype(), channels_last_shape(tensor.shape()),
                channels_last_shape(tensor.strides()), tensor.offset())
      .contiguous();
}

void order_filters(Program& program, const BackendSupport& support) {
  for (Program& body : program.bodies) order_filters(body, support);
  std::vector<bool> wanted(program.tensors.size(), false), unwanted(program.tensors.size(), false);
  for_each_read(program,
                [&](const Segment& segment, const ProgramOp& op, size_t position, size_t tensor) {
                  const bool wants = segment.backend == support.name() && position == 1 &&
                                     support.wants_channels_last_filter(program, op);
                  (wants ? wanted : unwanted)[tensor] = true;
                });
  for (int index : program.results()) unwanted[static_cast<size_t>(index)] = true;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    ProgramTensor& tensor = program.tensors[i];
    if (wanted[i] && !unwanted[i] && !tensor.stored && can_be_channels_last(tensor.shape))
      tensor.data = from_channels_last(as_channels_last(tensor.data));
  }
}

void restore_row_major(Program& program, std::span<const std::string> taking) {
  for (Program& body : program.bodies) restore_row_major(body, taking);
  const auto restore = [&](ProgramTensor& tensor) {
    if (tensor.data.defined()) tensor.data = tensor.data.contiguous();
  };
  for_each_read(program, [&](const Segment& segment, const ProgramOp&, size_t, size_t tensor) {
    if (std::find(taking.begin(), taking.end(), segment.backend) == taking.end())
      restore(program.tensors[tensor]);
  });
  for (int index : program.results()) restore(program.tensor(index));
}

}  // namespace octet
