// The list of steps, and the text of --explain.
#include "lowering/lower.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/passes/fold_input_free.h"
#include "core/passes/inline_bodies.h"
#include "core/passes/pass.h"
#include "lowering/fuse/fuse.h"
#include "lowering/fuse/op_table.h"
#include "lowering/import/graph.h"
#include "lowering/partition.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/specialize.h"
#include "lowering/program/stored_constant.h"
#include "lowering/program/symbols.h"
#include "lowering/support_at_sizes.h"

namespace octet {

namespace {

Program import_for(const BackendSupport& support, const Graph& graph, Fallback fallback) {
  Program program = import_graph(graph, fallback == Fallback::kTorch);
  program.backend = support.name();
  program.versions = support.versions();
  program.versions["octet"] = OCTET_VERSION;
  return program;
}

void check(const Program& program) {
  verify(program);
  for (const SymbolValues& values : probes_of(program)) verify(specialize(program, values));
}

}  // namespace

Program lower(const Graph& graph, const BackendSupport& support, const LowerOptions& options,
              Report& report) {
  const std::unique_ptr<Graph> folded = clone(graph);
  run_passes(
      "lower", *folded,
      {
          {"inline_bodies",   [&] { return inline_bodies(*folded); }                        },
          {"fold_input_free", [&] { return fold_input_free(*folded, FoldFrom::kConstants); }},
  });
  const SupportAtSizes at_sizes(support);
  const std::string fallback = options.fallback == Fallback::kNone ? "" : "reference";
  Program program;
  run_passes("lower",
             {
                 [&] { return to_text(program);},
                  [&] { verify(program);}
  },
             {
                 {"import", [&] { program = import_for(support, *folded, options.fallback); }},
                 {"fuse", [&] { fuse(program); }, options.fuse},
                 {"count_macs", [&] { count_macs(program); }, !options.fuse},
                 {"split_refused", [&] { split_refused(program, at_sizes, report); }},
                 {"partition", [&] { partition(program, at_sizes, fallback, report); }},
                 {"order_filters", [&] { order_filters(program, support); }},
             });
  check(program);
  report.note(fmt::format("lowered {} ops into {} segment{} for {}", program.ops.size(),
                          program.segments.size(), program.segments.size() == 1 ? "" : "s",
                          program.backend));
  return program;
}

namespace {

std::string tensor_text(const Program& program, int index) {
  const ProgramTensor& tensor = program.tensor(index);
  const std::string stored =
      tensor.stored ? fmt::format(" (stored as {})", describe(*tensor.stored)) : "";
  return fmt::format("{}[{}]{}", short_name_of(tensor.dtype), shape_text(tensor), stored);
}

}  // namespace

std::string explain(const Program& program) {
  std::string text;
  struct Share {
    int ops = 0;
    int64_t macs = 0;
  };
  std::map<std::string, Share> shares;
  int64_t total = 0;
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int index : program.segments[s].ops) {
      const ProgramOp& op = program.op(index);
      std::vector<std::string> inputs;
      for (int input : op.inputs)
        if (input >= 0) inputs.push_back(tensor_text(program, input));
      const auto reason = program.reasons.find(op.name);
      text +=
          fmt::format("{:<3} {:<10} {:<18} {}: {} -> {}{}\n", s, program.segments[s].backend,
                      op.kind, op.name, fmt::join(inputs, " "), tensor_text(program, op.outputs[0]),
                      reason == program.reasons.end() ? "" : "  # " + reason->second);
      ++shares[program.segments[s].backend].ops;
      shares[program.segments[s].backend].macs += op.macs;
      total += op.macs;
    }
  for (const auto& [backend, share] : shares)
    text += fmt::format(
        "{}: {} ops, {:.1f} % of {} multiply-accumulates\n", backend, share.ops,
        total == 0 ? 0.0 : 100.0 * static_cast<double>(share.macs) / static_cast<double>(total),
        total);
  return text + fmt::format("{} segment{}\n", program.segments.size(),
                            program.segments.size() == 1 ? "" : "s");
}

}  // namespace octet
