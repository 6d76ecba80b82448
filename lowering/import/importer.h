// The walk over a graph that makes a Program: finds each node's row (rows.h) and runs it. Rows see
// Steps alone.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/import/program_builder.h"
#include "lowering/import/size_table.h"
#include "lowering/program/program.h"

namespace octet {

// What a refusal is about: an op, a write that no op undoes, or a size known only when the program
// runs. LibTorch, as the fallback, helps with the first alone.
enum class RefusalKind { kOp, kWrite, kSize };

// Nodes that cannot be imported. The import continues after one, to name all of them at its end.
class Refusals {
 public:
  void add_refusal(const Node& node, const std::string& why, RefusalKind kind = RefusalKind::kOp);
  size_t count() const { return refusals_.size(); }
  void shrink_to(size_t count) {
    refusals_.erase(refusals_.begin() + std::ptrdiff_t(count), refusals_.end());
  }
  // Throws an Error that names all of them. keeps_unknown: whether LibTorch already runs what it
  // can.
  void fail_if_any(bool keeps_unknown) const;

 private:
  struct Refusal {
    const Node* node;
    RefusalKind kind;
    std::string why;
  };
  std::vector<Refusal> refusals_;
};

class Importer;

// Writes in place, made functional: the value that an op writes into becomes a new tensor, and so
// do what it is a view of and other views of that.
//
//   %v = select(%x, 0, 1)
//   add_(%v, 1)             %v becomes %v + 1, %x a copy of itself with that row in its place
class ViewWrites {
 public:
  explicit ViewWrites(Importer& importer) : importer_(importer) {}

  // From here on `written` is `tensor`. Refuses the writer when that cannot be expressed.
  void write(const Node& writer, Value* written, int tensor);
  // After an in-place op: its result is what it wrote.
  void write_back(const Node& node);

 private:
  bool write_to(const Node& writer, Value*& value, int tensor);
  void refresh_views(const Node& writer, const Value* root);

  Importer& importer_;
};

class Importer {
 public:
  // keep_unknown: nodes that cannot be imported become ops of kind "aten". depth: the number of
  // bodies around the graph. known: the symbols of the program around it.
  Importer(const Graph& graph, bool keep_unknown, size_t depth = 0,
           std::vector<ShapeSymbol> known = {});
  // Imports every node. Throws an Error that names all ops without a row.
  Program run();

  const Graph& graph() const { return graph_; }
  bool keeps_unknown() const { return keep_unknown_; }
  ProgramBuilder& builder() { return builder_; }
  SizeTable& sizes() { return sizes_; }
  Refusals& refusals() { return refusals_; }
  ViewWrites& writes() { return writes_; }

  void import_node(const Node& node);
  // A body of a branch or a loop. Throws Error as run() does, and when it writes into its
  // constants.
  Program import_body(const Node& node, const Graph& body);
  // Refuses results with sizes that are not known; whether there were some.
  bool refuse_new_sizes(const Node& node);
  bool is_state(const Value* value) const;

 private:
  void import_inputs();
  // What a body gets as a number that no size of its tensors decides.
  void import_number_inputs();
  void import_outputs();
  // Buffers that the graph writes: their value when a run starts, and the next run's.
  void import_states();
  void import_next_states();
  // Whether the node gives, or reads, sizes that nothing decides; refuses the node that gives them.
  bool refuse_open_ends(const Node& node);

  const Graph& graph_;
  const bool keep_unknown_;
  const size_t depth_;
  bool keeps_complex_ = false;  // LibTorch gets complex numbers whole, or none of them
  SizeTable sizes_;
  ProgramBuilder builder_;
  Refusals refusals_;
  ViewWrites writes_;
  std::vector<Value*> state_inputs_;  // by position in Program::states
};

// counts.cpp: a number of item() that sizes follow from.
void import_item(Importer& importer, const Node& node);
// numbers.cpp: a number that a body gives. Throws Error when nothing here computes it.
int number_result(Importer& importer, Value* value);

}  // namespace octet
