// Tracks sizes while a graph is imported: as formulas of shape symbols, with what is known about
// each symbol.
//
// The shapes of the inputs decide most symbols. The others are data-dependent, such as the number
// of elements that a mask selects (`nonzero`, a boolean index, `item`). torch.export names such a
// size u0. The import adds an op that counts (first_rows); from that op on, u0 is known. At the
// end, everything that depends on u0 moves into the body of an op `rest` (see rest.h):
//
//   %i: i64[u0,1] = nonzero(%mask)    u0 <= 6, as %mask has 6 elements
//   %y: f32[2*u0] = ...               evaluates to 12 at u0's greatest value
//
// If nothing decides a size (an `item` without an upper bound), the import refuses the node that
// gives it and skips the nodes that read it, so that a user sees one error for one cause.
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
  // known: for a body, the symbols of the program that contains it.
  SizeTable(const Graph& graph, std::vector<ShapeSymbol> known)
      : graph_(graph), known_(std::move(known)) {}

  // ---- formulas
  // Parses torch's expression of a size (parse_size) and substitutes the symbols that were defined.
  SizeExpr formula_of(const std::string& expression, const Value& value) const;
  SizeExpr formula_of(const Dim& dim, const Value& value) const;
  // Whether `value` is a size whose symbols are all known.
  bool has_formula(const Value& value) const;
  // The shape that the graph recorded. Throws Error when it recorded none, or a size with a symbol
  // that is not known.
  Sizes sizes_of(const Value& value) const;
  // An argument that is a list of sizes.
  Sizes sizes_argument(const Node& node, const char* name) const;
  // Substitutes `size` for the symbol from here on.
  void define(const std::string& symbol, const SizeExpr& size) { defined_.emplace(symbol, size); }

  // ---- values
  // The size for the example inputs of the export.
  int64_t example(const SizeExpr& size) const { return size.evaluate(hints_); }
  std::vector<int64_t> example(const Sizes& sizes) const { return evaluate(sizes, hints_); }
  // The largest that a size can be; -1 when it has no useful bound.
  int64_t greatest(const SizeExpr& size) const;
  // The size for the greatest values of all symbols, at most kLargestSize.
  int64_t most_of(const SizeExpr& size) const;
  // The range that torch.export recorded for the symbol.
  RangeConstraint range_of(const std::string& symbol) const;

  // ---- symbols
  // Adds the symbols in the shapes of the inputs to the program, with the ranges of the export.
  // Their hints are the sizes of the example inputs.
  void declare(Program& program);
  // The shape of a body's input at the hints of the symbols that the surrounding program knows,
  // because the body's graph has no example of counted sizes. Returns `recorded` when a symbol is
  // not known.
  std::vector<int64_t> body_example(const Sizes& sizes, const std::vector<int64_t>& recorded) const;
  bool is_known(const std::string& symbol) const { return hints_.contains(symbol); }
  // Makes a symbol known: an op counts it when the program runs.
  void add_counted(CountedSize size);
  bool is_counted(const SizeExpr& size) const;
  const std::vector<CountedSize>& counted() const { return counted_; }
  // All known symbols, for bodies.
  std::vector<ShapeSymbol> symbols() const;

  // ---- sizes that are not known yet
  // The first size of the node's result that has an unknown symbol; if there is none, the size of
  // `dim`.
  SizeExpr new_size(const Node& node, size_t dim = 0) const;
  bool has_new_size(const Node& node) const;
  // The first unknown symbol of a tensor's sizes; "" when all are known.
  std::string find_new_symbol(const Value& value) const;

  // ---- sizes that nothing decides
  // Treats the unknown sizes of the node as known from here on, so that the import can find further
  // errors.
  void give_up(const Node& node);
  // Whether the node reads or gives sizes that were given up.
  bool touches_given_up(const Node& node) const;
  // Explains why a node that gives the size is refused.
  std::string refusal_of(const std::string& symbol) const;
  void mark_endless(const std::string& symbol) { endless_.insert(symbol); }

  // Collects the symbols in all shapes of a graph that has an item(). import_item asks
  // is_item_size, so that it counts only numbers that are sizes.
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
  std::map<std::string, SizeExpr> defined_;  // symbols that equal other sizes
  std::set<std::string> item_sizes_;
  std::set<std::string> endless_;  // sizes of items without an upper bound
  std::set<std::string> given_up_;
};

// aten.item or aten._local_scalar_dense.
bool is_item(const Node& node);

}  // namespace octet
