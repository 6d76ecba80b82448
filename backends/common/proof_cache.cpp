// A map protected by a mutex.
#include "backends/common/proof_cache.h"

#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet {
namespace {

std::string text_of(const Attribute& attribute) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, attribute);
}

}  // namespace

std::string op_signature(const Program& program, const ProgramOp& op,
                         const std::function<std::string(const ProgramTensor&)>& describe) {
  std::string text = op.kind;
  for (const std::pair<const std::string, Attribute>& attribute : op.attributes)
    text += fmt::format(" {}={}", attribute.first, text_of(attribute.second));
  const auto append = [&](int index) {
    text += " " + (index < 0 ? std::string("-") : describe(program.tensor(index)));
  };
  for (int index : op.inputs) append(index);
  text += " ->";
  for (int index : op.outputs) append(index);
  return text;
}

Verdict ProofCache::find_or_prove(const std::string& signature,
                                  const std::function<Verdict()>& prove) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::map<std::string, Verdict>::const_iterator known = proofs_.find(signature);
  return known != proofs_.end() ? known->second : proofs_.emplace(signature, prove()).first->second;
}

}  // namespace octet
