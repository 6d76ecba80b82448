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
  kPassed,   // of a quantizer's cell: every check holds
};
std::string name_of(Outcome outcome);  // "exact", "ties", ...

struct CellResult {
  std::string name, kind;
  Outcome outcome = Outcome::kExact;
  double greatest = 0;  // difference: of integers in steps, of floats as a share of the greatest
  std::string detail;   // the reason of a refusal or a tolerance; what is wrong, and where
  std::string program;  // text of a wrong or crashed cell's program or graph
  double seconds = 0;
  // For a quantizer: the kinds of ops that stay float, though the backend has them in 8 bits.
  std::vector<std::string> left_float = {};
  bool passed() const { return outcome != Outcome::kWrong && outcome != Outcome::kCrashed; }
};

struct ConformanceOptions {
  // Several with commas between them: an op goes to the first that accepts it.
  std::string backend;
  // The name or file of the quantizer whose cells run (tools/cli/conformance). Empty: those of the
  // backend.
  std::string quantizer = {};
  std::string filter = {};  // a regular expression that a part of a cell's name matches
  uint32_t seed = 1;
  bool is_quick = false;  // every eighth cell of each op
  double timeout = 60;    // seconds for one cell
  // Runs cells on a device instead of in this process: called with a folder that has program.octet
  // and input_0.bin, ... (row-major elements), it writes output_0.bin, ... there. Empty: none.
  std::string device_command = {};
  // Further options of the command that repeats a cell: " --library libacme.so".
  std::string repeated_options = {};
};

// A cell of any kind. The child process that runs it may crash or hang.
struct Job {
  std::string name, kind;
  std::function<CellResult()> run;
  std::function<std::string()> text;  // of its program, called if `run` crashes
};
// Selects the jobs whose name the filter matches; if is_quick, among every eighth of each kind.
// Throws Error if there are none, or if the filter is not a regular expression.
std::vector<Job> chosen(std::vector<Job> jobs, const ConformanceOptions& options);
// Runs jobs in child processes, as many at a time as CPUs are usable, and calls `done` after each.
// Results are in the order of the jobs. Call it before other threads exist.
std::vector<CellResult> run_jobs(const std::vector<Job>& jobs, double timeout,
                                 const std::function<void(const CellResult&)>& done = {});

// Runs one cell in this process. Throws nothing.
CellResult run_cell(const Cell& cell, const ConformanceOptions& options);

// Runs the chosen ones of a backend's cells and of `more` as run_jobs() does. Throws Error as
// chosen() does, and if a backend is unknown.
std::vector<CellResult> run_conformance(const ConformanceOptions& options,
                                        const std::function<void(const CellResult&)>& done = {},
                                        const std::vector<Job>& more = {});
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
