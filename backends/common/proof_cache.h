// What a library answered about ops, by their signature: asking for equal ops again is free.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

// Kind, attributes, and `describe` of each tensor: equal for ops that the library treats alike.
std::string op_signature(const Program& program, const ProgramOp& op,
                         const std::function<std::string(const ProgramTensor&)>& describe);

// Thread-safe.
class ProofCache {
 public:
  // What prove() gives, or gave before for the same signature.
  Verdict find_or_prove(const std::string& signature, const std::function<Verdict()>& prove);

 private:
  std::mutex mutex_;
  std::map<std::string, Verdict> proofs_;
};

}  // namespace octet
