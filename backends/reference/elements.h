// Helpers for kernels: exact integers, elements moved as bytes, and index tensors.
#pragma once

#include "backends/reference/kernel.h"

namespace octet::reference {

// Whether the tensor has bools or integers of up to 63 bits without qparams, computed exactly in
// int64.
bool is_whole(const ProgramTensor& tensor);
// Whether output 0 and all present inputs from `first` on are whole.
bool is_all_whole(const KernelCall& call, size_t first = 0);

// The elements of an input as T: int64_t if is_whole, else double.
template <typename T>
Buffer<T> elements(const KernelCall& call, size_t input);

// Stores as `store` does. int64_t values of a whole output wrap when its dtype is too narrow, as in
// torch's casts.
template <typename T>
void store_elements(const KernelCall& call, std::span<const T> values, size_t output = 0);

// An attribute that bounds integers, rounded to the nearest integer within the bound; a default
// value when absent.
int64_t least_integer(const ProgramOp& op, const attr::Real& key, int64_t absent = INT64_MIN);
int64_t greatest_integer(const ProgramOp& op, const attr::Real& key);

// Whether elements of both tensors have the same bits, at any index. Integers without qparams match
// integers with any.
bool is_stored_alike(const ProgramTensor& a, const ProgramTensor& b);

// Moves elements as words of their size.
template <typename Word, typename Source>
void move_words(const KernelCall& call, const Source& source, Word fill) {
  Word* out = reinterpret_cast<Word*>(call.outputs[0].raw());
  const Word* in = reinterpret_cast<const Word*>(call.inputs[0].raw());
  for (int64_t i = 0, count = call.outputs[0].numel(); i < count; ++i) {
    const int64_t at = source();
    out[i] = at < 0 ? fill : in[at];
  }
}

// Moves elements as T, int64_t or double: for fills other than 0, or when values are converted.
template <typename T, typename Source>
void convert_elements(const KernelCall& call, const Source& source, T fill) {
  const Buffer<T> x = elements<T>(call, 0);
  Buffer<T> y(static_cast<size_t>(call.outputs[0].numel()));
  for (T& value : y) {
    const int64_t at = source();
    value = at < 0 ? fill : x[static_cast<size_t>(at)];
  }
  store_elements<T>(call, y);
}

// Copies element source() of input 0 to each output element in turn; a negative index gives `fill`.
template <typename Source>
void move_elements(const KernelCall& call, const Source& source, double fill = 0) {
  const ProgramTensor& from = call.input(0);
  const ProgramTensor& to = call.output();
  if (!is_stored_alike(from, to) || fill != 0) {
    if (is_whole(from) && is_whole(to) && std::fabs(fill) < 0x1p63)
      return convert_elements<int64_t>(call, source, static_cast<int64_t>(fill));
    return convert_elements<double>(call, source, fill);
  }
  // Alike: move bytes. The fill is 0 in real units, which is the zero point.
  const int64_t zero = to.qparams ? to.qparams->zero_point[0] : 0;
  switch (size_of(to.dtype)) {
    case 1: return move_words<uint8_t>(call, source, static_cast<uint8_t>(zero));
    case 2: return move_words<uint16_t>(call, source, static_cast<uint16_t>(zero));
    case 4: return move_words<uint32_t>(call, source, static_cast<uint32_t>(zero));
    default: return move_words<uint64_t>(call, source, static_cast<uint64_t>(zero));
  }
}

// Valid indices: [0, size), or also negative ones, which count from the end.
enum class IndexRange { kPositive, kFromEnd };

// Reads an index tensor and makes negative indices positive. Throws Error for an index outside
// `size` elements.
Sizes read_indices(const KernelCall& call, size_t input, int64_t size, IndexRange range);

// ---- helpers of the checks

// An input of int64 or int32.
Verdict check_index_dtype(const Program& program, const ProgramOp& op, size_t input);
// An output of int64.
Verdict check_index_output(const Program& program, const ProgramOp& op, size_t output);
// The output has shape `want`.
Verdict check_output_shape(const Program& program, const ProgramOp& op, size_t output,
                           const std::vector<int64_t>& want);
// The first output has the shape of the first input.
Verdict check_same_shape(const Program& program, const ProgramOp& op);
// The bias, input 2, is absent or has shape [channels].
Verdict check_bias(const Program& program, const ProgramOp& op, int64_t channels);

// As split_at for attribute `dim`; a scalar counts as one element. nullopt when out of range.
std::optional<DimSplit> find_split(const ProgramOp& op, const std::vector<int64_t>& shape);

}  // namespace octet::reference
