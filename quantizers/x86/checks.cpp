// Conditions of the X86 rows.
#include "quantizers/x86/checks.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet {

namespace {

constexpr std::array<std::string_view, 5> kIdentities = {
    "aten.dropout", "aten.alias", "aten.detach", "aten.contiguous", "aten.clone"};

bool is_identity(const Node& node) {
  return std::any_of(kIdentities.begin(), kIdentities.end(),
                     [&](std::string_view op) { return node.is(op); }) &&
         !node.arguments().empty() && !node.bool_or("train", false);
}

// The op that made the value, beyond those that only pass it on; null for graph inputs.
const Node* find_maker(const Value* value) {
  const Node* node = value->producer();
  while (node && is_identity(*node)) {
    const Value* passed = node->arguments().front().value.value_or_null();
    node = passed ? passed->producer() : nullptr;
  }
  return node;
}

std::string shape_text(const Value* value) {
  return value->meta ? fmt::format("{}", value->meta->shape()) : std::string("unknown");
}

}  // namespace

Verdict addend_is_another_value(const RuleMatch& at) {
  const Value* addend = at.match.find("y");
  const std::vector<Node*>& nodes = at.match.nodes;
  if (std::find(nodes.begin(), nodes.end(), addend->producer()) == nodes.end())
    return Verdict::accept();
  return Verdict::refuse(fmt::format("%{} is added to itself", addend->name()));
}

Verdict operands_have_one_shape(const RuleMatch& at) {
  const Value* x = at.match.find("x");
  const Value* y = at.match.find("y");
  if (x->meta && y->meta && x->meta->sizes == y->meta->sizes) return Verdict::accept();
  return Verdict::refuse(fmt::format("its operands have shapes {} and {}, want equal ones",
                                     shape_text(x), shape_text(y)));
}

Verdict inputs_are_quantized(const RuleMatch& at) {
  for (const Value* value : at.match.find_all("x")) {
    const Node* maker = find_maker(value);
    if (!maker || !at.annotations.is_annotated(maker))
      return Verdict::refuse(
          fmt::format("it follows its input, and %{} is not quantized", value->name()));
  }
  return Verdict::accept();
}

Verdict result_is_quantized(const RuleMatch& at) {
  const Value* result = at.match.root->output_or_null();
  if (result && std::any_of(result->users().begin(), result->users().end(),
                            [&](const Node* user) { return at.annotations.is_annotated(user); }))
    return Verdict::accept();
  return Verdict::refuse("no quantized op reads its result");
}

}  // namespace octet
