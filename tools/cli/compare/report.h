// Formats the result of `octet compare` as a table, as JSON and as CSV.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/compare.h"
#include "annotate/compare/metric.h"
#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Measures the error that lowering and the backend's kernels add: runs each op of a lowered program
// by itself, on the tensors of the q/dq graph that it was lowered from, or of another lowered
// program.
struct LoweredOp {
  std::string name, kind, backend, module;
  std::vector<std::string> sources;  // nodes of the q/dq graph that were folded into it
  // In quantization steps for integer outputs, in units of the output for floats. Has no data for
  // ops whose tensors the other program lacks.
  ErrorStats error = {};
  bool is_integer = false;
  // in the whole program, the fastest of some runs; 0 if the backend does not report times
  double seconds = 0;
};

struct LoweredComparison {
  std::vector<LoweredOp> ops;  // in program order, without control flow
  ErrorStats outputs;          // float outputs of the whole program
};

// data: floats or integers for quantized inputs; each program gets the type that it needs, and
// outputs are compared as reals. Throws Error("compare", ...) if no op of the program has its
// tensors in the graph, if the graph is quantized and the program is not, if the programs take
// different inputs, or without data. Throws what the backends throw.
LoweredComparison compare_lowered(const Graph& graph, const Program& program,
                                  const BatchSource& data);

// Compares two lowered programs of different backends or kinds: runs each op of `program` on the
// tensors of `reference`, which must have no states and no control flow.
LoweredComparison compare_lowered(const Program& reference, const Program& program,
                                  const BatchSource& data);

struct ComparisonReport {
  std::string title = {}, subtitle = {};
  const Graph* subject = nullptr;  // null when two lowered programs were compared
  Comparison comparison = {};
  std::vector<WeightComparison> weights = {};
  std::optional<LoweredComparison> lowered = {};
  std::string metric = {};  // its name; "": none
};

// {"kind": "compare", "title", "subtitle", "summary", "notes", "nodes"} as page.schema.json
// describes: a node for each op of the subject, with its errors, rank, cause and suggestion. With a
// metric, "metric" is its name.
nlohmann::ordered_json compare_json(const ComparisonReport& report);

// A heading, then a line for each compared op in the order of rank. Infinite numbers are inf and
// -inf; what was not measured is empty.
std::string compare_csv(const nlohmann::ordered_json& json);

// The first `count` ops by rank with their causes, aligned, and the suggested setting for the first
// of them.
std::vector<std::string> compare_table(const nlohmann::ordered_json& json, size_t count);

// Combines comparisons that several processes made on parts of the data.

// Serializes the sums of a comparison for another process on the same kind of machine.
std::string pack_sums(const ComparisonReport& report);

// Adds the sums of the same comparison on other batches, as if one process had seen all batches;
// only the order of summation differs. Throws Error("compare", "a process", ...) if the other
// process compared different programs.
void add_sums(ComparisonReport& report, const std::string& packed);

}  // namespace octet
