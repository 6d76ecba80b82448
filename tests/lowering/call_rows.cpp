#include "tests/lowering/call_rows.h"

#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "core/graph/graph.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet {

double difference_of(const CallRow& row) {
  const std::string text = std::string("graph(") + row.inputs + "):\n      " + row.results + " = " +
                           row.call + "\n      return (" + row.returns + ")";
  return compare_with_interpreter(make_graph(text)).greatest;
}

void check_rows(std::initializer_list<CallRow> rows) {
  for (const CallRow& row : rows) {
    INFO(row.inputs << " : " << row.call);
    double difference = INFINITY;
    CHECK_NOTHROW(difference = difference_of(row));
    CHECK(difference < 2e-5);
  }
}

}  // namespace octet
