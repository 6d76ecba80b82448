// Lists the steps of lowering, and prints the text of --explain.
#include "lowering/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/pass.h"
#include "core/passes/rewrites.h"
#include "lowering/fuse/fuse.h"
#include "lowering/import/graph.h"
#include "lowering/partition.h"
#include "lowering/program/control.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/specialize.h"
#include "lowering/program/stored_constant.h"
#include "lowering/program/symbols.h"

namespace octet {

namespace {

void set_backend(Program& program, const std::string& name) {
  program.backend = name;
  for (Program& body : program.bodies) set_backend(body, name);
}

constexpr const char* kReference = "reference";
constexpr const char* kWithBfloat16 = "onednn";  // the only backend that computes in it

void check_list(const Supports& supports) {
  if (supports.empty())
    throw Error("lower", "the backends", "the list is empty; name at least one");
  std::set<std::string> names;
  for (const auto& support : supports) {
    if (!names.insert(support->name()).second)
      throw Error("lower", support->name(), "is named twice; name each backend once");
    if (supports.size() > 1 && support->name() == kReference)
      throw Error("lower", kReference,
                  "is the fallback, not one of several backends; leave it out of the list");
  }
}

void check_float_compute(const Supports& supports, FloatCompute wanted) {
  if (wanted == FloatCompute::kFloat32) return;
  for (const auto& support : supports)
    if (support->name() == kWithBfloat16) return;
  throw Error(
      "lower", names_of(supports),
      "computes floats in float32 only, got float_compute bfloat16, want the backend onednn "
      "for it; leave out --float-compute");
}

Program import_for(const Supports& supports, const Graph& graph, Fallback fallback) {
  Program program = import_graph(graph, fallback == Fallback::kTorch);
  set_backend(program, names_of(supports));
  for (const auto& support : supports) program.versions.merge(support->versions());
  program.versions["octet"] = OCTET_VERSION;
  return program;
}

int quantize_states(Program& program, Report& report) {
  const int states = quantize_states(program);
  if (states > 0)
    report.note(fmt::format("stored {} state{} as int8 with a scale for each row", states,
                            states == 1 ? "" : "s"));
  return states;
}

struct Counts {
  size_t ops = 0;
  size_t segments = 0;
};

// Requests bfloat16 for the products of floats in segments of `backend`. Returns how many. Linears
// with inputs quantized at run time have kernels for integers.
int compute_in_bfloat16(Program& program, std::string_view backend) {
  int count = 0;
  const std::set<int> integers = rounded_at_run_time(program);
  const auto is_float = [&](int index) {
    return program.tensor(index).dtype == DType::kFloat32 && !integers.contains(index);
  };
  for (const Segment& segment : program.segments) {
    if (segment.backend != backend) continue;
    for (int index : segment.ops) {
      ProgramOp& op = program.op(index);
      const OpContract* contract = find_contract(op.kind);
      if (contract == nullptr || contract->find_attribute(attr::kCompute.name) == nullptr ||
          !is_float(op.inputs[0]) || (op.is("matmul") && !is_float(op.inputs[1])))
        continue;
      op.attributes[attr::kCompute] = std::string(kBfloat16Name);
      ++count;
    }
  }
  for (Program& body : program.bodies) count += compute_in_bfloat16(body, backend);
  return count;
}

// Counts bodies, too.
Counts counts_of(const Program& program) {
  Counts counts{program.ops.size(), program.segments.size()};
  for (const Program& body : program.bodies) {
    const Counts inner = counts_of(body);
    counts.ops += inner.ops;
    counts.segments += inner.segments;
  }
  return counts;
}

void check(const Program& program) {
  verify(program);
  for (const SymbolValues& values : probes_of(program)) verify(specialize(program, values));
}

// Folds constants again, because the parts of a decomposed op may compute on constants.
int decompose_and_fold(Graph& graph) {
  const int replaced = decompose(graph, is_imported);
  if (replaced > 0) fold_constants_and_sizes(graph);
  return replaced;
}

}  // namespace

Program lower(const Graph& graph, const Supports& supports, const LowerOptions& options,
              Report& report) {
  check_list(supports);
  check_float_compute(supports, options.float_compute);
  const std::unique_ptr<Graph> folded = clone(graph);
  run_passes("lower", *folded,
             {
                 {"widen_half", [&] { return widen_half(*folded); }, computes_in_half(*folded)},
                 {"inline_bodies", [&] { return inline_bodies(*folded); }},
                 {"fold_conv_bn", [&] { return fold_conv_bn(*folded); }, options.fuse},
                 {"fold_input_free", [&] { return fold_constants_and_sizes(*folded); }},
                 {"decompose", [&] { return decompose_and_fold(*folded); }},
                 {"split_complex", [&] { return split_complex(*folded); }},
             });
  const std::string fallback = options.fallback == Fallback::kNone ? "" : kReference;
  const auto is_taken = [&](const Program& asked, const ProgramOp& op) {
    return std::any_of(supports.begin(), supports.end(), [&](const auto& support) {
      return bool{ask_at_sizes(*support, asked, op)};
    });
  };
  Program program;
  run_passes(
      "lower", {[&] { return to_text(program); }, [&] { verify(program); }},
      {
          {"import", [&] { program = import_for(supports, *folded, options.fallback); }},
          {"fuse", [&] { fuse(program); }, options.fuse},
          {"quantize_states", [&] { return quantize_states(program, report); }, options.fuse},
          {"attention", [&] { make_attention(program, is_taken); }, options.fuse},
          {"count_macs", [&] { count_macs(program); }},
          {"split_refused", [&] { split_refused(program, supports, report); }},
          {"partition", [&] { partition(program, supports, fallback, report); }},
          {"float_compute", [&] { return compute_in_bfloat16(program, kWithBfloat16); },
           options.float_compute == FloatCompute::kBfloat16},
          {"order_filters",
           [&] {
             for (const auto& support : supports) order_filters(program, *support);
           }},
      });
  check(program);
  const Counts counts = counts_of(program);
  report.note(fmt::format("lowered {} ops into {} segment{} for {}", counts.ops, counts.segments,
                          counts.segments == 1 ? "" : "s", program.backend));
  return program;
}

Program lower(const Graph& graph, const BackendSupport& support, const LowerOptions& options,
              Report& report) {
  return lower(graph, Supports{{std::shared_ptr<void>(), &support}}, options, report);
}

namespace {

std::string tensor_text(const Program& program, int index) {
  const ProgramTensor& tensor = program.tensor(index);
  const std::string stored =
      tensor.stored ? fmt::format(" (stored as {})", describe(*tensor.stored)) : "";
  return fmt::format("{}[{}]{}", short_name_of(tensor.dtype), shape_text(tensor), stored);
}

// Ops and multiply-accumulates per backend, bodies included. An op counts once, however often it
// runs.
struct Shares {
  struct Share {
    int ops = 0;
    int64_t macs = 0;
  };
  std::map<std::string, Share> of;
  int64_t total = 0;
  size_t segments = 0;
};

std::string explain_ops(const Program& program, const std::string& indent, Shares& shares) {
  std::string text;
  shares.segments += program.segments.size();
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int index : program.segments[s].ops) {
      const ProgramOp& op = program.op(index);
      std::vector<std::string> inputs;
      for (int input : op.inputs)
        if (input >= 0) inputs.push_back(tensor_text(program, input));
      const auto reason = program.reasons.find(op.name);
      text += fmt::format("{}{:<3} {:<10} {:<18} {}: {} -> {}{}\n", indent, s,
                          program.segments[s].backend, op.kind, op.name, fmt::join(inputs, " "),
                          tensor_text(program, op.outputs[0]),
                          reason == program.reasons.end() ? "" : "  # " + reason->second);
      ++shares.of[program.segments[s].backend].ops;
      shares.of[program.segments[s].backend].macs += op.macs;
      shares.total += op.macs;
      for (int64_t body : (is_control(op) ? bodies_of(op) : std::vector<int64_t>()))
        text += fmt::format("{}  body {}:\n", indent, body) +
                explain_ops(program.bodies[static_cast<size_t>(body)], indent + "    ", shares);
    }
  return text;
}

}  // namespace

std::string explain(const Program& program) {
  Shares shares;
  std::string text = symbols_text(program) + explain_ops(program, "", shares);
  for (const auto& [backend, share] : shares.of)
    text += fmt::format("{}: {} ops, {:.1f} % of {} multiply-accumulates\n", backend, share.ops,
                        shares.total == 0 ? 0.0
                                          : 100.0 * static_cast<double>(share.macs) /
                                                static_cast<double>(shares.total),
                        shares.total);
  return text + fmt::format("{} segment{}\n", shares.segments, shares.segments == 1 ? "" : "s");
}

}  // namespace octet
