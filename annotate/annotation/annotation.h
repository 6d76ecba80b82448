// The annotations that a Quantizer makes on a graph: for each node, the quantization specs of its
// inputs and of its output; and their text form.
#pragma once

#include <utility>

#include "annotate/annotation/quant_limits.h"
#include "annotate/annotation/quant_spec.h"
#include "core/graph/graph.h"

namespace octet {

struct QuantizationAnnotation {
  // Input value -> spec, in the order in which the quantizer gave them. An input without an entry
  // stays float.
  std::vector<std::pair<Value*, SpecVariant>> input_qspec_map;
  // The spec of the result. With several results: of each floating-point one that
  // output_qspec_map lacks.
  std::optional<SpecVariant> output_qspec;
  std::vector<std::pair<Value*, SpecVariant>> output_qspec_map = {};  // result -> spec
  bool allow_implicit_sharing = true;
  // the node is claimed: later patterns skip it, even when no spec is set
  bool annotated = true;
  std::string rule;  // the pattern or config that made the annotation, for reports
  bool is_output_of_quantized_pattern = false;  // X86-style propagation
  // What the backend requires of these specs; check_limits.h checks it.
  std::vector<std::pair<Value*, QuantLimits>> input_limits = {};
  std::optional<QuantLimits> output_limits = {};

  const SpecVariant* find_input(const Value* value) const;
  void set_input(Value* value, SpecVariant spec);  // replaces or appends
  // The spec of a result of the annotated node; null: none.
  const SpecVariant* find_output(const Value* result) const;
  void set_output(Value* result, SpecVariant spec);  // replaces or appends
  bool has_output_spec() const { return output_qspec || !output_qspec_map.empty(); }
};

// The annotations of one graph, by node.
class Annotations {
 public:
  QuantizationAnnotation* find(const Node* node);
  const QuantizationAnnotation* find(const Node* node) const;
  bool is_annotated(const Node* node) const;  // find(node) && annotated
  // The output spec of a value that a node defines; null: none.
  const SpecVariant* find_output(const Value* value) const;
  QuantizationAnnotation& operator[](const Node* node) { return map_[node]; }
  void erase(const Node* node) { map_.erase(node); }
  bool empty() const { return map_.empty(); }
  size_t size() const { return map_.size(); }

 private:
  std::unordered_map<const Node*, QuantizationAnnotation> map_;
};

// The specs of one operator family. A tensor whose spec is absent stays float.
struct QuantizationConfig {
  std::optional<QuantizationSpec> input_activation;
  std::optional<QuantizationSpec> output_activation;
  std::optional<QuantizationSpec> weight;
  std::optional<QuantizationSpec> bias;
  bool is_qat = false;
  // for backends that list several configs by name: which one; "": the first
  std::string dtype_config = {};
};

// "%x -> %conv" or "%x"; "%?" for a null pointer. `prefix` is put before each name: the path of a
// body of control flow, with a dot at the end.
std::string to_text(const EdgeOrNode& key, const std::string& prefix = "");

// "int8 -128..127 per_tensor_affine histogram", "int8 -8..7 SYMMETRIC per_group 32 affine_min_max",
// "same as %x -> %conv", "same as %x", "fixed 0.00390625, 0 uint8", "derived (product_of_scales)
// from %x -> %conv, %w -> %conv".
std::string to_text(const SpecVariant& spec, const std::string& prefix = "");

// One line per annotated node in graph order, with its input specs in the quantizer's order:
//   %conv2d [conv]: %x: int8 ..., %w: int8 ... => int8 ...
// With several results: ... => %getitem: int8 ..., %getitem_1: int8 ...
std::string to_text(const Graph& graph, const Annotations& annotations);

}  // namespace octet
