// Which input decides each shape symbol of a Program, and the values that the shapes of a run's
// inputs give. Free of torch.
#pragma once

#include <span>
#include <string>

#include "lowering/program/program.h"

namespace octet {

// What one dimension may claim, so that sums and products of sizes stay in 64 bits; likewise the
// bytes of one tensor.
inline constexpr size_t kHighestRank = 64;
inline constexpr int64_t kLargestSize = int64_t{1} << 31;
inline constexpr int64_t kLargestTensor = int64_t{1} << 46;
bool is_sane_shape(DType dtype, const std::vector<int64_t>& shape);

SymbolValues hints_of(const Program& program);

// The value of each symbol. shapes: for each of Program::inputs the address of its sizes, as many
// as the program says; what stands for -1 is not read. Throws Error(stage, input, ...) when a size
// is not the wanted one, is out of its symbol's range, or contradicts that of another dimension.
SymbolValues bind_symbols(const Program& program, std::span<const int64_t* const> shapes,
                          const std::string& stage);

// Symbols that no dimension of an input decides: none is alone in it.
std::set<std::string> undecided_symbols(const Program& program);

// The sizes of an input or output as a caller is told them: -1 in `shape` for an open one, with the
// least and the greatest that it may be (of what one symbol decides through a formula, at the ends
// of all symbols' ranges). A size that only a run decides is open, too.
struct ShapeRange {
  std::vector<int64_t> shape;
  std::vector<int64_t> min;
  std::vector<int64_t> max;
};
// tensor: one of the program's.
ShapeRange shape_range(const Program& program, const ProgramTensor& tensor);

// Throws InternalError unless names are unique, hints within ranges, each symbol decided by an
// input, and formulas give the shapes and attributes at the hints.
void verify_symbols(const Program& program);

// "s77 from 1 to 64".
std::string describe(const ShapeSymbol& symbol);
// "s77,3,8,8": formulas where there are some.
std::string shape_text(const ProgramTensor& tensor, const char* separator = ",");

}  // namespace octet
