// compat: annotates as torchao's X86InductorQuantizer does, including its choices and defects. The
// tables list what it annotates, in its order; rows match by the origin of nodes
// (common/source_partitions.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "annotate/rules/annotation_rule.h"
#include "quantizers/common/source_partitions.h"

namespace octet {

// kUnfolded: in training, where it is folded after annotation
enum class BatchNorm { kFolded, kUnfolded };
// the other operand of an addition after the matrix op
enum class Addend { kNone, kQuantized, kFloat };
enum class Unary { kNone, kLast };                 // the last op of the chain
enum class ManyCalls { kRefused, kEachByItself };  // of a module that is called several times

// A convolution or linear op, then optional batch norm, add and unary op.
struct X86FusionRow {
  std::string name;
  std::vector<std::vector<std::string>> sources;  // the origin of each op
  std::vector<std::string> matrix_ops;  // the last op of the first partition must be one of these
  BatchNorm batch_norm = BatchNorm::kFolded;
  Addend addend = Addend::kNone;
  Unary unary = Unary::kNone;
  ManyCalls many_calls = ManyCalls::kRefused;
};
std::span<const X86FusionRow> x86_fusion_rows();

// Ops that are quantized when their input is. Input and output are integers of one scale.
std::span<const std::string> x86_propagation_ops();
// Ops that the global configuration covers, and ops that can be configured at all.
std::span<const std::string> x86_default_ops();
std::span<const std::string> x86_quantizable_ops();

// Finds the op of a function or module class: "torch.nn.functional.linear", "torch.nn.Linear",
// "aten.linear" and "linear" are all "aten.linear.default". nullopt when torchao cannot configure
// it.
std::optional<std::string> find_x86_op(const std::string& name);

// Annotates one graph, one configuration after another in torchao's order of precedence.
class X86CompatAnnotator {
 public:
  // Whether a configuration covers the ops of one match.
  using MatchFilter = std::function<bool(std::span<Node* const>)>;

  X86CompatAnnotator(Graph& graph, Annotations& annotations, RuleState& state)
      : graph_(graph), annotations_(annotations), state_(state) {}

  // Annotates what `filter` accepts and no earlier configuration took. nullopt marks ops as
  // annotated without specs. description: for reports.
  void apply(const std::optional<QuantizationConfig>& config, const MatchFilter& filter,
             const std::string& description);
  // Call after the last configuration: makes pooling, cat and flatten share one observer between
  // input and output.
  void share_outputs();
  // Ops that a configuration of nullopt marked, with its description.
  const std::map<const Node*, std::string>& excluded() const { return excluded_; }

 private:
  struct Run {
    const std::optional<QuantizationConfig>& config;
    const MatchFilter& filter;
    const std::string& description;
  };
  void annotate_fusions(const Run& run, const X86FusionRow& row);
  // The last ops of the partitions of a chain, in the order of the row; empty, with a recorded
  // refusal, when the row does not accept them.
  std::vector<Node*> find_chain(const X86FusionRow& row, const PartitionChain& chain);
  void annotate_chain(const Run& run, const X86FusionRow& row, const std::vector<Node*>& nodes,
                      const PartitionChain& chain);
  void annotate_alone(const Run& run, const X86FusionRow& row, const SourcePartition& partition);
  void annotate_matmuls(const Run& run);
  void annotate_muls(const Run& run);
  void annotate_propagation(const Run& run);
  void annotate_propagated(const Run& run, Node& node);

  bool takes(const Run& run, std::span<Node* const> nodes) const;
  void exclude(const Run& run, std::span<Node* const> nodes);
  void annotate_gemm(const QuantizationConfig& config, const X86FusionRow& row, Node& gemm,
                     bool is_output);
  // Annotates a node again; all its inputs get the spec of activations.
  void annotate_inputs(const QuantizationConfig& config, Node& node, std::span<Value* const> inputs,
                       const std::string& rule);
  bool is_quantized(const Value* value) const;

  Graph& graph_;
  Annotations& annotations_;
  RuleState& state_;
  std::map<const Node*, std::string> excluded_;
};

}  // namespace octet
