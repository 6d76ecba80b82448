// `octet compare` names the faulty op first.
#include <catch2/catch.hpp>

#include "annotate/compare/compare.h"
#include "backends/registry.h"
#include "core/base/report.h"
#include "lowering/lower.h"
#include "tests/tools/compare/planted.h"
#include "tools/cli/compare/report.h"

namespace octet::test_planted_faults {
using test::Fault;
using test::Subject;

namespace {

BatchSource source_of(const Subject& subject) {
  return [&batches = subject.batches,
          next = size_t{0}]() mutable -> std::optional<std::vector<c10::IValue>> {
    if (next == batches.size()) return std::nullopt;
    return batches[next++];
  };
}

// The name of the op with rank 1, and its cause.
std::pair<std::string, std::string> first_of(const Subject& subject, const Graph& quantized,
                                             const Program* program) {
  ComparisonReport report{.title = "", .subtitle = "", .subject = &quantized};
  report.comparison = shadow(subject.reference, quantized, source_of(subject));
  report.weights = compare_weights(subject.reference, quantized);
  if (program != nullptr) report.lowered = compare_lowered(quantized, *program, source_of(subject));
  const nlohmann::ordered_json json = compare_json(report);
  for (const nlohmann::ordered_json& node : json.at("nodes"))
    if (node.value("rank", 0) == 1) return {node.at("name"), node.value("cause", "")};
  return {};
}

Program lowered(const Graph& graph) {
  Report report;
  return lower(graph, *make_support("reference"), {}, report);
}

}  // namespace

TEST_CASE("planted faults are named first", "[compare]") {
  size_t planted = 0, found = 0;
  std::string missed;
  for (const Subject& subject : test::make_subjects()) {
    const Program program = lowered(subject.quantized);
    for (const Fault& fault : test::faults_of(subject, program)) {
      const std::unique_ptr<Graph> quantized = clone(subject.quantized);
      Program changed = program;
      const std::set<std::string> culprits =
          fault.in_graph ? fault.in_graph(*quantized) : fault.in_program(changed);
      const auto [name, cause] = first_of(subject, *quantized, fault.in_graph ? nullptr : &changed);
      ++planted;
      if (culprits.contains(name))
        ++found;
      else
        missed += "\n" + subject.name + ": " + fault.name + ": " + name + " (" + cause +
                  ") instead of " + *culprits.begin();
    }
  }
  INFO("found " << found << " of " << planted << ", missed" << missed);
  CHECK(planted >= 60);
  // 58 of 60
  CHECK(static_cast<double>(found) >= 58.0 / 60 * static_cast<double>(planted));
}

TEST_CASE("a fault of the graph is not blamed on lowering", "[compare]") {
  for (const Subject& subject : test::make_subjects()) {
    const Program program = lowered(subject.quantized);
    for (const Fault& fault : test::faults_of(subject, program)) {
      // lowering refuses a dequantize that does not fit its quantize
      if (!fault.in_graph || fault.name.starts_with("a reader")) continue;
      INFO(subject.name << ": " << fault.name);
      const std::unique_ptr<Graph> quantized = clone(subject.quantized);
      fault.in_graph(*quantized);
      for (const LoweredOp& op :
           compare_lowered(*quantized, lowered(*quantized), source_of(subject)).ops) {
        INFO(op.name);
        CHECK(op.error.largest <= (op.is_integer ? 1 : 1e-3));
      }
    }
  }
}

}  // namespace octet::test_planted_faults
