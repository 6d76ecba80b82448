#include "annotate/graph/module_names.h"

namespace octet {
namespace {

constexpr std::string_view kSelfPrefix = "L['self'].";

std::string_view last_part(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

}  // namespace

std::string module_path(const ModuleFrame& frame) {
  return frame.path.starts_with(kSelfPrefix) ? frame.path.substr(kSelfPrefix.size()) : frame.path;
}

bool is_module_type(const ModuleFrame& frame, const std::string& wanted) {
  if (frame.type == wanted) return true;
  return wanted.starts_with("torch.nn.") && !wanted.starts_with("torch.nn.modules.") &&
         frame.type.starts_with("torch.nn.modules.") && last_part(frame.type) == last_part(wanted);
}

bool is_op_type(const Node& node, const std::string& op) {
  return node.is(op) || (op.find('.') == std::string::npos && node.is("aten." + op));
}

}  // namespace octet
