#include "annotate/graph/opaque_hooks.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "annotate/graph/module_names.h"
#include "core/base/error.h"

namespace octet {
namespace {

struct HooksRow {
  std::string module_type;
  OpaqueHooks hooks;
};

std::vector<HooksRow>& hooks_rows() {
  static std::vector<HooksRow> rows;
  return rows;
}

const HooksRow* find_hooks(const std::string& module_type) {
  for (const HooksRow& row : hooks_rows())
    if (is_module_type({{}, row.module_type}, module_type) ||
        is_module_type({{}, module_type}, row.module_type))
      return &row;
  return nullptr;
}

}  // namespace

void register_opaque_hooks(const std::string& module_type, OpaqueHooks hooks) {
  const std::string subject = fmt::format("opaque hooks of \"{}\"", module_type);
  if (module_type.empty())
    throw Error("quantizer", subject, "the class is empty, want e.g. \"my.Lstm\"");
  if (!hooks.float_to_observed && !hooks.observed_to_quantized)
    throw Error("quantizer", subject, "got no hook, want at least one of the two");
  if (const HooksRow* row = find_hooks(module_type))
    throw Error("quantizer", subject,
                fmt::format("the class has hooks already, as \"{}\"; register one pair for each",
                            row->module_type));
  hooks_rows().push_back({module_type, std::move(hooks)});
}

OpaquePart with_registered_hooks(OpaquePart part) {
  if (part.module_type.empty() || part.float_to_observed || part.observed_to_quantized) return part;
  if (const HooksRow* row = find_hooks(part.module_type)) {
    part.float_to_observed = row->hooks.float_to_observed;
    part.observed_to_quantized = row->hooks.observed_to_quantized;
  }
  return part;
}

}  // namespace octet
