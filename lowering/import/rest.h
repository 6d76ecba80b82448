// Cuts a program with sizes that only a run decides in two: what can be computed before they are
// known, and an op `rest` whose body is what follows.
//
//   %rows, %n = nonzero(%mask)            %rows, %n = nonzero(%mask)
//   %i = counted(%rows, %n)        =>     %y = rest(%n, %rows, %x)
//   %y = index(%x, %i)                      body(%i: i64[u0,1], %x): %y = index(%x, %i)
//
// A session runs the first part, reads %n, and runs the body for u0 = %n. Memory is planned for the
// greatest u0, the number of elements of %mask.
#pragma once

#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// The op of an import that counts: rows, count -> the first `count` of them. Here alone; behind
// split_at_counts there is none.
inline constexpr const char* kFirstRows = "counted";

// A symbol that an op kFirstRows decides.
struct CountedSize {
  ShapeSymbol symbol;
  SizeExpr greatest;  // of symbols that are known before it is counted
};

// counted: the symbols that no input decides, each after those that its greatest value depends on.
// depth: in how many bodies the program stands. Throws Error("lower", ...) for an output whose
// greatest size is not that at the greatest counts, and for counts of which more than
// kDeepestBodies depend on each other.
Program split_at_counts(Program program, const std::vector<CountedSize>& counted, size_t depth = 0);

}  // namespace octet
