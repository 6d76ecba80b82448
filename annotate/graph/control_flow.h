// Finds the bodies of control flow, decides which of them are quantized, and moves constants into
// and out of them.
//
// In a .pt2 file a body has no constants; weights are operands of the call:
//   [%y] = higher_order.cond(%p, graph "a" (%x, %w): ..., graph "b" (%x, %w): ..., [%x, %w])
//       %w = param "w" of the program
// While a program is quantized the constants are inside, so that a body is a graph like any other:
//   [%y] = higher_order.cond(%p, graph "a" (%w = param "w", %x): ..., graph "b" (...): ..., [%x])
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct Body {
  Graph* graph = nullptr;
  std::string path;  // names of the subgraphs from the outermost to this one, joined by dots
  const Node* call = nullptr;
  std::string reason;  // why it and everything in it stays float; "": it is quantized
};
// All subgraphs of the graph, including nested ones, each after the one that contains it. Bodies of
// scan, while_loop, cond and map are quantized (kTorchao: of scan and while_loop only); the
// condition of a while_loop never is.
std::vector<Body> bodies_within(const Graph& graph, Compat compat = Compat::kNone);

// Whether the program stores the input's value.
bool is_stored(const GraphInput& input);

// Reports each call with a body that stays float, with the reason. The condition of a while_loop
// does not count.
void report_float_bodies(const Graph& graph, Compat compat, Report& report);

// Gives nodes of the body without a module (exports omit it) the module of the call.
void inherit_module(const Body& body);

// Runs `work` with a report about one body. Its entries get names like "body.linear", entries that
// exist are passed to it without the path, and its notes, which are about a whole program, are
// dropped.
void report_on_body(const Body& body, Report& report, const std::function<void(Report&)>& work);

// Moves constants of the program that are loop-invariant operands into the bodies, and back out.
// Operands that the program writes to are not moved. Both return the number of operands moved.
// Moving out drops what no body uses and stores each tensor once, however many bodies have it.
int move_constants_into_bodies(Graph& graph);
int move_constants_out_of_bodies(Graph& graph);

}  // namespace octet
