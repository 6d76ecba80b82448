// Builds the Error that names all nodes that cannot be imported.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/import/importer.h"
#include "lowering/import/rows.h"

namespace octet {
namespace {

// Whether the op is not one of PyTorch's.
bool is_custom(const std::string& target) {
  static const char* const kOwn[] = {
      "aten.",    "prims.",    "higher_order.", "_operator.", "quantized_decomposed.",
      "torchao.", "quantized."};
  return std::none_of(std::begin(kOwn), std::end(kOwn),
                      [&](const char* prefix) { return target.starts_with(prefix); });
}

}  // namespace

void Refusals::add_refusal(const Node& node, const std::string& why, RefusalKind kind) {
  const bool is_known = std::any_of(
      refusals_.begin(), refusals_.end(),
      [&](const Refusal& refusal) { return refusal.node == &node && refusal.why == why; });
  if (!is_known) refusals_.push_back({&node, kind, why});
}

void Refusals::fail_if_any(bool keeps_unknown) const {
  if (refusals_.empty()) return;
  std::vector<std::string> ops, sizes, helped;
  bool has_custom = false;
  for (const Refusal& refusal : refusals_) {
    const Node& node = *refusal.node;
    const bool is_size = refusal.kind == RefusalKind::kSize;
    (is_size ? sizes : ops)
        .push_back(fmt::format("{} ({}){}", node.name(), node.target(),
                               refusal.why.empty() ? "" : " " + refusal.why));
    if (is_size) continue;
    has_custom = has_custom || is_custom(node.target());
    if (!keeps_unknown && refusal.kind == RefusalKind::kOp && find_part_missing(node).empty())
      helped.push_back(node.name());
  }
  const auto plural = [](const std::vector<std::string>& list) {
    return list.size() == 1 ? "" : "s";
  };
  std::string what;
  if (!ops.empty())
    what = fmt::format(
        "has no kernel in the reference backend; {} such op{}: {}; replace them before the "
        "export{}{}",
        ops.size(), plural(ops), fmt::join(ops, ", "),
        helped.empty()
            ? ""
            : fmt::format(", or run {} with LibTorch (--fallback torch)",
                          helped.size() == ops.size() ? "them"
                                                      : fmt::format("{}", fmt::join(helped, ", "))),
        has_custom ? ", or load a library that registers kernels for custom ops (--library)" : "");
  if (!sizes.empty())
    what += fmt::format(
        "{}has a size or an index that is known only when the program runs, which no backend and "
        "no fallback takes; {} such op{}: {}; make it fixed before the export, or leave it to the "
        "caller",
        ops.empty() ? "" : "; also, the program ", sizes.size(), plural(sizes),
        fmt::join(sizes, ", "));
  const auto leads = [&](const Refusal& refusal) {
    return ops.empty() || refusal.kind != RefusalKind::kSize;
  };
  const Node& first = *std::find_if(refusals_.begin(), refusals_.end(), leads)->node;
  throw Error("lower", fmt::format("{} ({})", first.name(), first.target()), what);
}

}  // namespace octet
