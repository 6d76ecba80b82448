// Splits a program at its data-dependent sizes: sizes that depend on the values of tensors, so that
// they are known only while the program runs. torch.export calls them unbacked (u0). Everything
// that needs such a size moves into the body of an op `rest`:
//
//   %rows, %n = nonzero(%mask)            %rows, %n = nonzero(%mask)
//   %i = counted(%rows, %n)        =>     %y = rest(%n, %rows, %x)
//   %y = index(%x, %i)                      body(%i: i64[u0,1], %x): %y = index(%x, %i)
//
// A session runs the ops before the `rest`, reads %n, and runs the body with u0 = %n. Memory is
// planned once, for the greatest u0: the number of elements of %mask.
//
// PyTorch's manual on dynamic shapes describes unbacked symbols. Splitting the program is Octet's
// method: backends compile the body like any other program with open sizes.
#pragma once

#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// An op that only the import uses: (rows, count) -> the first `count` of the rows. split_at_counts
// removes all of them.
inline constexpr const char* kFirstRows = "counted";

// A symbol whose value is the count of an op kFirstRows.
struct CountedSize {
  ShapeSymbol symbol;
  SizeExpr greatest;  // in symbols that are known before the count
};

// counted: the symbols that no input decides, each after the symbols that its greatest value
// depends on. depth: how many bodies contain the program. Throws Error("lower", ...) for an output
// that may be larger than at the greatest counts, and when more than kDeepestBodies counts depend
// on each other in a chain.
Program split_at_counts(Program program, const std::vector<CountedSize>& counted, size_t depth = 0);

}  // namespace octet
