// run_cells BACKEND: runs every fourth cell of `octet conformance` in this process, for builds with
// sanitizers; exits with 1 if a cell is wrong.
#include <cstdio>

#include "backends/conformance/conformance.h"

int main(int argc, char** argv) {
  using namespace octet::conformance;
  if (argc != 2) {
    std::fputs("run_cells: want BACKEND\n", stderr);
    return 2;
  }
  const ConformanceOptions options{.backend = argv[1]};
  size_t wrong = 0, index = 0;
  for (const Cell& cell : conformance_cells()) {
    if (index++ % 4 != 0) continue;
    std::fprintf(stderr, "%s\n", cell.name.c_str());  // the last one is what a sanitizer ends
    const CellResult result = run_cell(cell, options);
    if (result.passed()) continue;
    ++wrong;
    std::fprintf(stderr, "%s: %s\n%s\n", cell.name.c_str(), result.detail.c_str(),
                 result.program.c_str());
  }
  return wrong == 0 ? 0 : 1;
}
