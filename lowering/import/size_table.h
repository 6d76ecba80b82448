// Sizes while a graph is imported: formulas of shape symbols, and what is known of each symbol.
//
// The inputs' shapes decide most symbols. Some only a run decides: how many elements a mask selects
// (`nonzero`, a boolean index, `item`). torch.export names such a size u0. Its op is imported as
// one that counts (first_rows), from which on u0 is known, and everything that follows u0 moves
// into the body of an op `rest` (rest.h):
//
//   %i: i64[u0,1] = nonzero(%mask)    u0 <= 6, as %mask has 6 elements
//   %y: f32[2*u0] = ...               evaluates to 12 at u0's greatest value
//
// A size that nothing decides (an `item` without a greatest value) is refused at the node that
// gives it, and at that node alone: nodes that read it are skipped.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/import/rest.h"
#include "lowering/program/program.h"

namespace octet {

// A shape whose sizes are numbers or formulas of shape symbols.
struct Sizes : std::vector<SizeExpr> {
  using std::vector<SizeExpr>::vector;
  Sizes(const std::vector<SizeExpr>& sizes) : std::vector<SizeExpr>(sizes) {}
  Sizes(const std::vector<int64_t>& numbers)
      : std::vector<SizeExpr>(numbers.begin(), numbers.end()) {}
};

class SizeTable {
 public:
  // known: the symbols of the program around a body.
  SizeTable(const Graph& graph, std::vector<ShapeSymbol> known)
      : graph_(graph), known_(std::move(known)) {}

  // ---- formulas
  // torch's expression of a size (parse_size), with definitions put in.
  SizeExpr formula_of(const std::string& expression, const Value& value) const;
  SizeExpr formula_of(const Dim& dim, const Value& value) const;
  // Whether `value` is a size that the inputs' sizes decide.
  bool has_formula(const Value& value) const;
  // The shape that the graph recorded. Throws Error when it recorded none, or a size that the
  // inputs' sizes do not decide.
  Sizes sizes_of(const Value& value) const;
  // An argument that is a list of sizes.
  Sizes sizes_argument(const Node& node, const char* name) const;
  // From here on the symbol is this size.
  void define(const std::string& symbol, const SizeExpr& size) { defined_.emplace(symbol, size); }

  // ---- values
  // The size at the example that the graph was exported with.
  int64_t example(const SizeExpr& size) const { return size.evaluate(hints_); }
  std::vector<int64_t> example(const Sizes& sizes) const { return evaluate(sizes, hints_); }
  // The largest that a size can be; -1 when it has no useful bound.
  int64_t greatest(const SizeExpr& size) const;
  // The size at the greatest values of all symbols, kLargestSize at most.
  int64_t most_of(const SizeExpr& size) const;
  // As torch.export recorded it.
  RangeConstraint range_of(const std::string& symbol) const;

  // ---- symbols
  // Gives the program the symbols that its inputs' shapes have: their ranges are those of the
  // export, their hints the sizes of its example.
  void declare(Program& program);
  // The example's shape of a body's input, at the hints of the symbols around it: the body's graph
  // has no example of sizes that are counted. `recorded` when a symbol is not known.
  std::vector<int64_t> body_example(const Sizes& sizes, const std::vector<int64_t>& recorded) const;
  bool is_known(const std::string& symbol) const { return hints_.contains(symbol); }
  // An op counts this symbol when the program runs.
  void add_counted(CountedSize size);
  bool is_counted(const SizeExpr& size) const;
  const std::vector<CountedSize>& counted() const { return counted_; }
  // All that are known, for bodies.
  std::vector<ShapeSymbol> symbols() const;

  // ---- sizes that are not known yet
  // The one in the node's result; that of `dim` when all are known.
  SizeExpr new_size(const Node& node, size_t dim = 0) const;
  bool has_new_size(const Node& node) const;
  // The first unknown symbol of a tensor's sizes; "" when all are known.
  std::string find_new_symbol(const Value& value) const;

  // ---- sizes that nothing decides
  // The node's unknown sizes count as known from here on, so that the import can go on to its end.
  void give_up(const Node& node);
  // Whether the node reads or gives such sizes.
  bool touches_given_up(const Node& node) const;
  // Why a node that gives the size is refused.
  std::string refusal_of(const std::string& symbol) const;
  void mark_endless(const std::string& symbol) { endless_.insert(symbol); }

  // The symbols of sizes in a graph that has an item(): import_item asks is_item_size.
  void note_item_sizes();
  bool is_item_size(const std::string& symbol) const { return item_sizes_.contains(symbol); }

 private:
  template <typename Predicate>
  std::string find_symbol(const Value& value, const Predicate& is_wanted) const;

  const Graph& graph_;
  const std::vector<ShapeSymbol> known_;
  std::vector<ShapeSymbol> symbols_;
  SymbolValues hints_;
  std::vector<CountedSize> counted_;
  std::map<std::string, SizeExpr> defined_;  // symbols that are other sizes
  std::set<std::string> item_sizes_;
  std::set<std::string> endless_;  // sizes of items without a greatest value
  std::set<std::string> given_up_;
};

// aten.item or aten._local_scalar_dense.
bool is_item(const Node& node);

}  // namespace octet
