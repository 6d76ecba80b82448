// Builds a single graph of two programs and the shadows of one of them, so that one run computes
// both and compares each op while its tensors are alive:
//
//   reference   x -> conv2d -> relu -> conv2d_1 ...
//   subject     x -> q/dq -> conv2d' -> relu' -> q/dq -> conv2d_1' ...
//   shadows     conv2d'(x), q/dq(relu'(conv2d)), conv2d_1'(relu), ...: each op of the subject on
//               what the reference gives
#pragma once

#include "core/graph/graph.h"
#include "core/graph/origin.h"

namespace octet {

// Matches the values of one program with those of another made from the same model: by the handles
// that passes carry along (core/graph/origin.h), else by name and op.

// A value of the subject and the value of the reference that corresponds to it: subject = reference
// / factors.
struct Twin {
  const Value* reference = nullptr;
  const Value* subject = nullptr;
  ChannelFactors factors = {};  // empty shape: none
  // the reference's nodes that the subject's producer replaces, in order; empty for inputs
  std::vector<std::string> members = {};
};

struct Twins {
  std::vector<Twin> pairs;  // in the subject's order, user inputs first; tensors of any dtype
  // Compute ops of the subject without a twin, in its order. Quantize and dequantize ops and those
  // that choose their parameters do not count.
  std::vector<const Node*> lonely;

  const Twin* find(const Value* subject) const;  // null: no twin

 private:
  friend Twins find_twins(const Graph& reference, const Graph& subject);
  std::unordered_map<const Value*, size_t> by_subject_;
};

// The user outputs that are float tensors, in order.
std::vector<const Value*> float_outputs(const Graph& graph);

// A body of control flow counts as one op. Throws Error("compare", ...) when the programs take
// different inputs, or when more than half of the compute ops have no twin; it names the first of
// them.
Twins find_twins(const Graph& reference, const Graph& subject);

// A node that passes (row, reference, subject, isolated, before) to the code that runs the graph;
// the last two may be None. It has no results.
inline constexpr const char* kCompareTarget = "octet.compare";

// The rounding of a value right after the op that produces it: per tensor, with literals.
struct OutputRounding {
  double scale = 1;
  int64_t zero_point = 0;
  int64_t quant_min = 0, quant_max = 0;
  DType dtype = DType::kInt8;

  double least() const { return (static_cast<double>(quant_min - zero_point)) * scale; }
  double greatest() const { return (static_cast<double>(quant_max - zero_point)) * scale; }
};

// A comparison: a float value of the subject, taken after its quantize and dequantize unless
// something reads it without them.
struct ShadowRow {
  Twin twin = {};                   // of the two programs given
  const Value* compared = nullptr;  // the subject's value: the twin's, or that dequantized
  std::optional<OutputRounding> rounding = {};  // when it is dequantized
};

struct ShadowGraph {
  Graph graph;  // has the user inputs of the programs
  std::vector<ShadowRow> rows;
  // copies in `graph` of each value of the two programs
  std::unordered_map<const Value*, Value*> copies;
};

struct ShadowOptions {
  // Later ops of the reference read a copy of what was compared, so that in-place ops do not change
  // it and gradients reach it. Shadows read the original.
  bool gradients = false;
};

// Rows are in the subject's order; views and copies without rounding are left out. The graph shares
// the constants of both programs, which must outlive it. Throws what find_twins() throws.
ShadowGraph make_shadow_graph(const Graph& reference, const Graph& subject, const Twins& twins,
                              const ShadowOptions& options = {});

// Makes the reference's float outputs, then the subject's, outputs of the graph. Returns how many
// each program has. Throws Error("compare", ...) when the numbers differ.
size_t add_float_outputs(ShadowGraph& shadow, const Graph& reference, const Graph& subject);

}  // namespace octet
