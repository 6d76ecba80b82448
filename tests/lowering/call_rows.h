// Compares single calls: the lowered program on the reference backend must give what the
// interpreter gives.
#pragma once

#include <initializer_list>

namespace octet {

struct CallRow {
  const char* inputs;
  const char* results;  // the first one is compared, or the one that `returns` names
  const char* call;
  const char* returns = "%y";
};

// The largest difference on random inputs: floats in [-1, 1), integers and booleans 0 or 1, so that
// they are valid indices.
double difference_of(const CallRow& row);
// CHECKs that the difference of each row is below 2e-5.
void check_rows(std::initializer_list<CallRow> rows);

}  // namespace octet
