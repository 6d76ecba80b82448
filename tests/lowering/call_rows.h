// Rows of one call each: the lowered program on the reference backend gives what the interpreter
// gives.
#pragma once

#include <initializer_list>

namespace octet {

struct CallRow {
  const char* inputs;
  const char* results;  // the first one is compared, unless `returns` says which
  const char* call;
  const char* returns = "%y";
};

// The largest difference on random inputs: floats in [-1, 1), integers and booleans 0 or 1, so that
// they can be indices.
double difference_of(const CallRow& row);
// CHECKs that each is below 2e-5.
void check_rows(std::initializer_list<CallRow> rows);

}  // namespace octet
