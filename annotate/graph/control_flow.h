// Bodies of control flow: which of them are quantized, and where their constants stand.
//
// In a .pt2 a body has no constants of its own; weights arrive as operands of the call:
//   [%y] = higher_order.cond(%p, graph "a" (%x, %w): ..., graph "b" (%x, %w): ..., [%x, %w])
//       %w = param "w" of the program
// While a program is quantized they stand inside, so that a body is a graph like any other:
//   [%y] = higher_order.cond(%p, graph "a" (%w = param "w", %x): ..., graph "b" (...): ..., [%x])
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annotate/annotation/quant_spec.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct Body {
  Graph* graph = nullptr;
  std::string path;  // names of the subgraphs from the outermost to this one, with a dot between
  const Node* call = nullptr;
  std::string reason;  // why it is left float, with all that is in it; "" when it is quantized
};
// All subgraphs of the graph, those of subgraphs included, each behind the one that it is in.
// Bodies of scan, while_loop, cond and map are quantized, torchao's way those of scan and
// while_loop alone; the condition of a while_loop never is.
std::vector<Body> bodies_within(const Graph& graph, Compat compat = Compat::kNone);

// An entry for each call some body of which is left float (the condition of a while_loop excepted),
// with the reason.
void report_float_bodies(const Graph& graph, Compat compat, Report& report);

// Nodes of the body that belong to no module (exports leave it out) get the module of the call.
void inherit_module(const Body& body);

// Runs `work` on a report about one body: entries on its nodes come with names like "body.linear",
// known ones are given without the path, and notes (which speak of a whole program) are dropped.
void report_on_body(const Body& body, Report& report, const std::function<void(Report&)>& work);

// Constants of the program that are loop-invariant operands move into the bodies, and back.
// Operands that the program writes to stay. Both return the number of operands moved; moving out
// drops what no body uses and stores a tensor once, however many bodies have it.
int move_constants_into_bodies(Graph& graph);
int move_constants_out_of_bodies(Graph& graph);

}  // namespace octet
