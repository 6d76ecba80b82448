// Walks over a graph and makes a Program: finds each node's row (rows.h) and runs it. Rows use the
// import only through Steps.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/import/program_builder.h"
#include "lowering/import/size_table.h"
#include "lowering/program/program.h"

namespace octet {

// The cause of a refusal: an op, a write that cannot be made functional, or a size known only when
// the program runs. Only the first can be solved with LibTorch as the fallback.
enum class RefusalKind { kOp, kWrite, kSize };

// Collects the nodes that cannot be imported, so that one error at the end names all of them.
class Refusals {
 public:
  void add_refusal(const Node& node, const std::string& why, RefusalKind kind = RefusalKind::kOp);
  size_t count() const { return refusals_.size(); }
  void shrink_to(size_t count) {
    refusals_.erase(refusals_.begin() + std::ptrdiff_t(count), refusals_.end());
  }
  // Throws an Error that names all of them. keeps_unknown: LibTorch already runs the ops that it
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

// Makes in-place writes functional. The value that an op writes into becomes a new tensor, and so
// does every value that shares its memory: what it is a view of, and other views of that.
//
//   %v = select(%x, 0, 1)
//   add_(%v, 1)             %v becomes %v + 1, %x a copy of %x with that row replaced
//
// PyTorch does the same in torch.func.functionalize.
class ViewWrites {
 public:
  explicit ViewWrites(Importer& importer) : importer_(importer) {}

  // Makes `written` this tensor from here on. Refuses the writer when the effect on other values
  // cannot be expressed.
  void write(const Node& writer, Value* written, int tensor);
  // Applies the effect of an in-place op: its result is the value that it wrote into.
  void write_back(const Node& node);

 private:
  bool write_to(const Node& writer, Value*& value, int tensor);
  void refresh_views(const Node& writer, const Value* root);

  Importer& importer_;
};

class Importer {
 public:
  // keep_unknown: nodes that cannot be imported become ops of kind "aten". depth: the number of
  // bodies that contain the graph. known: the symbols of the surrounding program.
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
  // Imports a body of a branch or a loop. Throws Error as run() does, and when the body writes into
  // its constants.
  Program import_body(const Node& node, const Graph& body);
  // Refuses the node if its results have unknown sizes. Returns whether it did.
  bool refuse_new_sizes(const Node& node);
  bool is_state(const Value* value) const;

 private:
  void import_inputs();
  // Number inputs of a body that the sizes of its tensors do not determine.
  void import_number_inputs();
  void import_outputs();
  // Buffers that the graph writes become states: the value at the start of a run, and for the next
  // run.
  void import_states();
  void import_next_states();
  // Whether the node gives or reads sizes that nothing decides. Refuses the node that gives them.
  bool refuse_open_ends(const Node& node);

  const Graph& graph_;
  const bool keep_unknown_;
  const size_t depth_;
  bool keeps_complex_ = false;  // complex nodes all go to LibTorch, or none does
  SizeTable sizes_;
  ProgramBuilder builder_;
  Refusals refusals_;
  ViewWrites writes_;
  std::vector<Value*> state_inputs_;  // by position in Program::states
};

// counts.cpp: imports an item() whose number is a size.
void import_item(Importer& importer, const Node& node);
// numbers.cpp: the tensor of a number that a body returns. Throws Error when no op computes it.
int number_result(Importer& importer, Value* value);

}  // namespace octet
