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

std::set<int> rounded_at_run_time(const Program& program) {
  std::set<int> rounded;
  for (const ProgramOp& op : program.ops)
    if (op.is("fake_quantize_dynamic")) rounded.insert(op.outputs[0]);
  return rounded;
}

}  // namespace octet
