// Makes, expands, permutes and reshapes float constants that the artifact stores as integers or
// float16.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Makes a stored constant from integers with qparams per tensor or per channel.
StoredConstant stored_constant(const Tensor& values, const TensorQParams& qparams);
// Makes a stored constant from float16 values; half_constant converts an f32 constant to these.
StoredConstant stored_half(const Tensor& values);
Tensor half_constant(const Tensor& real);
ProgramTensor constant_tensor(const std::string& name, StoredConstant stored);
// The tensor that has the elements' bytes: `packed` or `values`.
const Tensor& bytes_of(const StoredConstant& stored);
// The elements as f32.
Tensor expand(const StoredConstant& stored);
// The elements of any constant: its data, or a new tensor with the expansion of `stored`.
Tensor constant_data(const ProgramTensor& constant);
// Expands one row of a matrix without allocating.
void expand_row(const StoredConstant& stored, int64_t row, std::span<float> out);
// "i8 in 4x1 blocks", "4-bit i8 in 4x32 blocks", "f16"
std::string describe(const StoredConstant& stored);
// Describes what violates the comment on StoredConstant; empty if nothing does.
std::string find_fault(const StoredConstant& stored);
// Whether all scales and zero points are finite; reads all of them.
bool has_finite_scales(const StoredConstant& stored);
// Whether any zero point differs from `usual`; reads all of them.
bool has_zero_points(const StoredConstant& stored, float usual = 0);
// A scale for each index of the first dimension; nullopt unless the constant is stored as int8 with
// at most one scale for each index, and zero points of 0.
std::optional<std::vector<float>> find_row_scales(const ProgramTensor& constant);

// The constant after a permute, or after a reshape that only moves, adds or drops dimensions of
// size 1; nullopt for other reshapes.
StoredConstant permuted(const StoredConstant& stored, const std::vector<int64_t>& dims);
std::optional<StoredConstant> reshaped(const StoredConstant& stored,
                                       const std::vector<int64_t>& shape);

// Packs values of 4, 3 or 2 bits: value i begins at bit i * bits, where bit 0 is the lowest of the
// first byte; bits after the last value are 0. `values` must fit (StoredConstant::bits).
Tensor pack_bits(const Tensor& values, int bits);
Tensor unpack_bits(const Tensor& bytes, int bits, DType dtype, const std::vector<int64_t>& shape);
// The bytes of `count` packed values.
int64_t packed_size(int64_t count, int bits);

// Scales or zero points (f32) in the first of int8, uint8, bfloat16 and float16 that represents
// each exactly; `reals` itself if none does, or if there are so few that a file would not shrink.
Tensor narrowed(const Tensor& reals);

}  // namespace octet
