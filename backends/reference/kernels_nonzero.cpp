// Where a tensor is not 0, and how often.
#include <algorithm>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

template <typename T>
void find_nonzero(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  const Buffer<T> x = elements<T>(call, 0);
  int64_t* position = call.outputs[0].data<int64_t>();
  int64_t* const end = position + call.outputs[0].numel();
  Sizes index(shape.size(), 0);
  int64_t count = 0;
  for (const T& value : x) {
    if (value != 0) {
      position = std::copy(index.begin(), index.end(), position);
      ++count;
    }
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  std::fill(position, end, int64_t{0});
  *call.outputs[1].data<int64_t>() = count;
}

void nonzero(const KernelCall& call) {
  is_whole(call.input(0)) ? find_nonzero<int64_t>(call) : find_nonzero<double>(call);
}

Verdict check_nonzero(const Program& program, const ProgramOp& op) {
  if (Verdict counts = check_counts(op, 1, 1, 2, 2); !counts) return counts;
  const ProgramTensor& x = *find_input(program, op, 0);
  for (size_t output : {0, 1})
    if (Verdict dtype = check_index_output(program, op, output); !dtype) return dtype;
  if (Verdict count = check_output_shape(program, op, 1, {}); !count) return count;
  return check_output_shape(program, op, 0, {x.numel(), static_cast<int64_t>(x.shape.size())});
}

constexpr KernelRow kNonzeroKernels[] = {
    {"nonzero", nonzero, check_nonzero},
};

}  // namespace

std::span<const KernelRow> nonzero_kernels() { return kNonzeroKernels; }

}  // namespace octet::reference
