// Caches whether a library supports an op, keyed by the op's signature.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

// Kind, attributes, and `describe` of each tensor. Ops that the library treats alike have equal
// signatures.
std::string op_signature(const Program& program, const ProgramOp& op,
                         const std::function<std::string(const ProgramTensor&)>& describe);

// Thread-safe.
class ProofCache {
 public:
  // Returns the cached result for `signature`, or calls prove() and caches its result.
  Verdict find_or_prove(const std::string& signature, const std::function<Verdict()>& prove);

 private:
  std::mutex mutex_;
  std::map<std::string, Verdict> proofs_;
};

}  // namespace octet
