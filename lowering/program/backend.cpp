// Asks a backend about an op, and reports what its answer lacks.
#include "lowering/program/backend.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/user_code.h"

namespace octet {

Verdict ask(const std::string& stage, const BackendSupport& support, const Program& program,
            const ProgramOp& op) {
  const Verdict verdict =
      in_user_code(stage, support.name(), fmt::format("its accepts() of {} ({})", op.name, op.kind),
                   [&] { return support.accepts(program, op); });
  if (!verdict && verdict.reason().empty())
    throw Error(stage, support.name(),
                fmt::format("its accepts() refuses {} ({}) without a reason; give "
                            "Verdict::refuse() one",
                            op.name, op.kind));
  return verdict;
}

}  // namespace octet
