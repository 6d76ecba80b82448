// Makes graphs from text with filled constants, and compares a lowered program with the
// interpreter.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Parses the text and fills the constants: int8 with random integers (of 4 bits if the name has
// "int4"), i64 and i32 with zeros, floats with values in [-1, 1), or in [0.005, 0.02) if the name
// has "scale".
Graph make_graph(const std::string& text);

// The ops of a program as to_text prints them, without inputs, scales and segments.
std::string ops_text(const Program& program);

// Lowers `graph` for the reference backend. Returns its ops_text; and the message of the Error that
// this throws, or "no error".
std::string lowered(const Graph& graph);
std::string error_of(const Graph& graph);

// `graph` lowered for the reference backend.
Program reference_program(const Graph& graph);

struct Difference {
  double greatest = 0;  // absolute
  double share = 0;     // of elements that differ by more than 1e-5
};

// Runs `graph` in the interpreter and lowered for the reference backend on random inputs of the
// recorded shapes, `runs` times in a row on different inputs; buffers keep what a run wrote.
Difference compare_with_interpreter(const Graph& graph, bool fuse = true, int runs = 1);
// As above, lowered for `backend`.
Difference compare_on_backend(const Graph& graph, const std::string& backend, bool fuse = true,
                              int runs = 1);
// The greatest magnitude in the interpreter's first result, on the inputs of the first run.
double greatest_result(const Graph& graph);
// The greatest difference in four runs in a row of the graph of the text, fused and not.
double greatest_in_four_runs(const std::string& text);

}  // namespace octet
