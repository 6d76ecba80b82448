// Proves a backend: runs the cells on it and on the reference, and compares.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/conformance/cells.h"

namespace octet::conformance {

enum class Outcome {
  kExact,
  kTies,     // integers differ by one step where the real value is halfway between two steps
  kWithin,   // within the backend's Tolerance, or kFloatTolerance
  kRefused,  // the backend does not accept the op
  kWrong,    // everything else, including accepted cells that fail and refusals without a reason
  kCrashed,  // a signal, or no result in time
};
std::string name_of(Outcome outcome);  // "exact", "ties", ...

struct CellResult {
  std::string name, kind;
  Outcome outcome = Outcome::kExact;
  double greatest = 0;  // difference: of integers in steps, of floats as a share of the greatest
  std::string detail;   // the reason of a refusal or a tolerance; what is wrong, and where
  std::string program;  // text of a wrong or crashed cell's program
  double seconds = 0;
  bool passed() const { return outcome != Outcome::kWrong && outcome != Outcome::kCrashed; }
};

struct ConformanceOptions {
  std::string backend;
  std::string filter = {};  // a regular expression that a part of a cell's name matches
  uint32_t seed = 1;
  bool is_quick = false;  // every eighth cell of each op
  double timeout = 60;    // seconds for one cell
  // Runs cells on a device instead of in this process: called with a folder that has program.octet
  // and input_0.bin, ... (row-major elements), it writes output_0.bin, ... there. Empty: none.
  std::string device_command = {};
};

// Runs one cell in this process. Throws nothing.
CellResult run_cell(const Cell& cell, const ConformanceOptions& options);

// Runs the chosen cells in child processes, as many at a time as CPUs are usable, and calls `done`
// after each. Results are in the order of the cells. Call it before other threads exist. Throws
// Error if the backend is unknown, the filter is not a regular expression, or no cell matches it.
std::vector<CellResult> run_conformance(const ConformanceOptions& options,
                                        const std::function<void(const CellResult&)>& done = {});
// As above, for these cells.
std::vector<CellResult> run_cells(const std::vector<Cell>& cells, const ConformanceOptions& options,
                                  const std::function<void(const CellResult&)>& done = {});

// Reports. The text has a line per kind of op and one per failed cell, with the command that
// repeats it; JSON and JUnit XML have all cells.
std::string to_text(const std::vector<CellResult>& results, const ConformanceOptions& options);
std::string to_json_text(const std::vector<CellResult>& results, const ConformanceOptions& options);
std::string to_junit_xml(const std::vector<CellResult>& results, const ConformanceOptions& options);
std::string to_html(const std::vector<CellResult>& results, const ConformanceOptions& options);

}  // namespace octet::conformance
