#include "tools/cli/common/slow_products.h"

#include <map>

#include <fmt/format.h>

namespace octet {

std::vector<std::string> slow_products(const Program& program) {
  std::map<std::string, std::vector<std::string>> ops;  // by reason
  for (const ProgramOp& op : program.ops) {
    const auto reason = program.reasons.find(op.name);
    if (op.macs > 0 && reason != program.reasons.end()) ops[reason->second].push_back(op.name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : ops) {
    const std::string more = names.size() == 1 ? "" : fmt::format(" and {} more", names.size() - 1);
    lines.push_back(
        fmt::format("{}{}: on the reference, which is slow: {}", names.front(), more, reason));
  }
  return lines;
}

}  // namespace octet
