// Computes the values of a Program's shape symbols from the shapes of a run's inputs, and checks
// them. Needs no LibTorch.
#pragma once

#include <span>
#include <string>

#include "lowering/program/program.h"

namespace octet {

// Limits on the size of a dimension and on the bytes of a tensor, so that sums and products of
// sizes fit in 64 bits.
inline constexpr size_t kHighestRank = 64;
inline constexpr int64_t kLargestSize = int64_t{1} << 31;
inline constexpr int64_t kLargestTensor = int64_t{1} << 46;
bool is_sane_shape(DType dtype, const std::vector<int64_t>& shape);

SymbolValues hints_of(const Program& program);

// The value of each symbol. shapes: for each of Program::inputs, a pointer to its sizes; the
// pointer for an input of -1 is not read. Throws Error(stage, input, ...) if a size differs from a
// fixed size, is out of its symbol's range, or contradicts another dimension.
SymbolValues bind_symbols(const Program& program, std::span<const int64_t* const> shapes,
                          const std::string& stage);

// Symbols that no input decides, because no dimension of an input depends on that symbol alone.
std::set<std::string> undecided_symbols(const Program& program);

// The sizes of an input or output in the form that callers see: open sizes are -1 in `shape`, with
// their least and greatest value. For a formula of one symbol these are its values at the ends of
// the symbol's range. A data-dependent size is open, too.
struct ShapeRange {
  std::vector<int64_t> shape;
  std::vector<int64_t> min;
  std::vector<int64_t> max;
};
// `tensor` must belong to the program.
ShapeRange shape_range(const Program& program, const ProgramTensor& tensor);
// "1..64, 3, 8, 8".
std::string to_text(const ShapeRange& range);

// Throws InternalError unless names are unique, hints are within their ranges, an input decides
// each symbol, and the formulas give the shapes and attributes at the hints.
void verify_symbols(const Program& program);

// A line for each symbol: "symbol s77 (dimension 0 of x) from 1 to 64, lowered at 4".
std::string symbols_text(const Program& program);
// "s77,3,8,8": the shape, with formulas where it has them.
std::string shape_text(const ProgramTensor& tensor, const char* separator = ",");

}  // namespace octet
