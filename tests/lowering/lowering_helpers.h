// Graphs from text with filled constants, and the comparison of a lowered program with the
// interpreter.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// parse_graph, then: int8 constants get random integers (of 4 bits when the name has "int4"), i64
// and i32 zeros, float constants values in [-1, 1), except that names with "scale" get values in
// [0.005, 0.02).
Graph make_graph(const std::string& text);

// The ops of a program as to_text prints them, without inputs, scales and segments.
std::string ops_text(const Program& program);

// `graph` lowered for the reference backend: its ops_text; the message of the Error that says why
// not, "no error" without one.
std::string lowered(const Graph& graph);
std::string error_of(const Graph& graph);

// `graph` lowered for the reference backend.
Program reference_program(const Graph& graph);

struct Difference {
  double greatest = 0;  // absolute
  double share = 0;     // of elements that differ by more than 1e-5
};

// Runs `graph` in the interpreter and lowered for the reference backend on random inputs of the
// recorded shapes, `runs` times in a row (buffers that it writes go on), each time on others.
Difference compare_with_interpreter(const Graph& graph, bool fuse = true, int runs = 1);
// The same, lowered for that backend.
Difference compare_on_backend(const Graph& graph, const std::string& backend, bool fuse = true,
                              int runs = 1);
// The greatest magnitude in the interpreter's first result, on the inputs of the first such run.
double greatest_result(const Graph& graph);
// The greatest of four runs in a row of the graph of the text, fused and not.
double greatest_in_four_runs(const std::string& text);

}  // namespace octet
