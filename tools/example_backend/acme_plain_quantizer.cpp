#include "acme_plain_quantizer.h"

#include "quantizers/registry.h"

namespace acme {

using namespace octet;

namespace {

const QuantizationSpec kAct = {.dtype = DType::kInt8,
                               .observer_or_fake_quant_ctr = {.name = "histogram"},
                               .quant_min = -127,
                               .quant_max = 127,
                               .qscheme = QScheme::kPerTensorSymmetric};
const QuantizationSpec kWeight = {.dtype = DType::kInt8,
                                  .observer_or_fake_quant_ctr = {.name = "min_max"},
                                  .quant_min = -127,
                                  .quant_max = 127,
                                  .qscheme = QScheme::kPerTensorSymmetric};

// The relu that is the only reader of the op's result; null if there is none.
Node* find_relu_after(const Node& node) {
  const Value* value = node.output();
  if (!value->has_one_user()) return nullptr;
  Node* reader = value->users().front();
  return reader->is("aten.relu") ? reader : nullptr;
}

void set_inputs(const Node& node, QuantizationAnnotation& annotation) {
  if (node.is("aten.add")) {
    for (Value* value : node.inputs()) annotation.set_input(value, kAct);
    return;
  }
  annotation.set_input(node.find_input("input"), kAct);
  annotation.set_input(node.find_input("weight"), kWeight);
}

bool is_ours(const Node& node) {
  if (node.is("aten.add")) return node.inputs().size() == 2;  // two tensors, not a scalar
  return node.is("aten.conv2d") || node.is("aten.linear");
}

}  // namespace

void PlainQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  for (Node* node : graph.nodes()) {
    if (!is_ours(*node) || annotations.is_annotated(node)) continue;
    const ConfigTable::Choice choice = config_of(*node);
    if (choice.config == nullptr) {
      report.add({"annotate", node->name(), node->target(), "", choice.reason});
      continue;
    }
    set_inputs(*node, annotations[node]);
    Node* last = node;
    if (Node* relu = find_relu_after(*node); relu != nullptr && !annotations.is_annotated(relu))
      last = relu;
    annotations[last].output_qspec = kAct;
    annotations[node].rule = annotations[last].rule = "plain";
  }
}

void register_plain_quantizer() {
  register_quantizer("acme_plain", [](const QuantizerOptions&) -> std::unique_ptr<Quantizer> {
    return std::make_unique<PlainQuantizer>();
  });
}

}  // namespace acme
