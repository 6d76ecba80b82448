// Reads integers exactly, moves elements as bytes, and reads index tensors.
#pragma once

#include "backends/reference/kernel.h"

namespace octet::reference {

// Integers of up to 63 bits and bools that stand for themselves: computed in int64, exactly.
bool is_whole(const ProgramTensor& tensor);
// Whether the inputs from `first` on that are there, and output 0, are whole.
bool is_all_whole(const KernelCall& call, size_t first = 0);

// The elements of an input as T: int64_t where is_whole, else double.
template <typename T>
Buffer<T> elements(const KernelCall& call, size_t input);

// Stores as `store` does; int64_t into a whole output, where a dtype that is too narrow wraps, as
// torch's casts do.
template <typename T>
void store_elements(const KernelCall& call, std::span<const T> values, size_t output = 0);

// An attribute that bounds integers: the least integer >= it (or the greatest <= it), or what an
// absent one means.
int64_t least_integer(const ProgramOp& op, const attr::Real& key, int64_t absent = INT64_MIN);
int64_t greatest_integer(const ProgramOp& op, const attr::Real& key);

// Whether an element of one has the same bits in the other, at any place: integers
// without qparams take those of any.
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

// Elements as T, int64_t or double, with another fill than the bytes of 0 or converted.
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

// Takes output element i from input 0 at the i-th result of source(); a negative one gives `fill`.
template <typename Source>
void move_elements(const KernelCall& call, const Source& source, double fill = 0) {
  const ProgramTensor& from = call.input(0);
  const ProgramTensor& to = call.output();
  if (!is_stored_alike(from, to) || fill != 0) {
    if (is_whole(from) && is_whole(to) && std::fabs(fill) < 0x1p63)
      return convert_elements<int64_t>(call, source, static_cast<int64_t>(fill));
    return convert_elements<double>(call, source, fill);
  }
  // Alike: bytes. What is filled in is 0 in real units, so the zero point.
  const int64_t zero = to.qparams ? to.qparams->zero_point[0] : 0;
  switch (size_of(to.dtype)) {
    case 1:
      return move_words<uint8_t>(call, source, static_cast<uint8_t>(zero));
    case 2:
      return move_words<uint16_t>(call, source, static_cast<uint16_t>(zero));
    case 4:
      return move_words<uint32_t>(call, source, static_cast<uint32_t>(zero));
    default:
      return move_words<uint64_t>(call, source, static_cast<uint64_t>(zero));
  }
}

// Which indices are taken: those of [0, size), or negative ones too, which count from the end.
enum class IndexRange { kPositive, kFromEnd };

// The elements of an index tensor, made positive. Throws Error for one outside of `size` elements.
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

// As split_at for attribute `dim`, where a scalar counts as one element; nullopt when out of range.
std::optional<DimSplit> find_split(const ProgramOp& op, const std::vector<int64_t>& shape);

}  // namespace octet::reference
