// Makes, expands and moves float constants that the artifact holds as integers or float16.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// From integer values whose parameters are per tensor or along an axis.
StoredConstant stored_constant(const Tensor& values, const TensorQParams& qparams);
// From float16 values; and those of an f32 constant.
StoredConstant stored_half(const Tensor& values);
Tensor half_constant(const Tensor& real);
ProgramTensor constant_tensor(const std::string& name, StoredConstant stored);
// The f32 constant's elements.
Tensor expand(const StoredConstant& stored);
// The elements of any constant: its data, or anew the expansion of what is stored for it.
Tensor constant_data(const ProgramTensor& constant);
// One row of a matrix; takes nothing from the heap.
void expand_row(const StoredConstant& stored, int64_t row, std::span<float> out);
// "i8 in 4x1 blocks", "4-bit i8 in 4x32 blocks", "f16"
std::string describe(const StoredConstant& stored);
// What contradicts the comment on StoredConstant, empty when nothing does.
std::string find_fault(const StoredConstant& stored);
// Whether all scales and zero points are finite; reads all of them.
bool has_finite_scales(const StoredConstant& stored);

// The constant after a permute, or after a reshape that moves, adds or drops dimensions of size 1
// only; nullopt for any other reshape.
StoredConstant permuted(const StoredConstant& stored, const std::vector<int64_t>& dims);
std::optional<StoredConstant> reshaped(const StoredConstant& stored,
                                       const std::vector<int64_t>& shape);

// Two values of 4 bits in a byte, the first in the low half; the last half is 0 when their number
// is odd. `values` must fit (fits_nibbles).
Tensor pack_nibbles(const Tensor& values);
Tensor unpack_nibbles(const Tensor& bytes, DType dtype, const std::vector<int64_t>& shape);

}  // namespace octet
