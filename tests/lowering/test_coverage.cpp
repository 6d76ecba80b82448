// Runs every op of the coverage list in every form, compares the reference with the interpreter and
// oneDNN with the reference, and notes which kernel took the op. backends/onednn/coverage.csv holds
// the expected result; OCTET_UPDATE_COVERAGE=1 rewrites it.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/lower.h"
#include "tests/lowering/coverage_rows.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_coverage {
namespace {

struct FormName {
  CoverageForm form;
  const char* name;
};
constexpr FormName kForms[] = {
    {CoverageForm::kFloat, "float"},
    {CoverageForm::kStatic, "int8"},
    {CoverageForm::kDynamicTensor, "int8, activations at run time"},
    {CoverageForm::kDynamicToken, "int8, per token at run time"},
    {CoverageForm::kDynamicGroups, "per token, weights in groups"},
    {CoverageForm::kWeightOnly, "weights only, int8"},
    {CoverageForm::kWeightGroups, "weights only, int8 in groups"},
    {CoverageForm::kNibbleGroups, "weights only, 4 bits in groups"},
};

// Forms beyond the first two are for linear layers, int8 weights alone for whatever has weights.
bool has_form(const CoverageRow& row, CoverageForm form) {
  bool has_weights = false, has_activations = false;
  for (const CoverageInput& input : row.inputs) {
    has_weights =
        has_weights || input.kind == Operand::kWeights || input.kind == Operand::kWeights1;
    has_activations = has_activations || input.kind == Operand::kActivation;
  }
  if (form == CoverageForm::kFloat) return true;
  if (form == CoverageForm::kStatic) return has_activations;
  if (form == CoverageForm::kWeightOnly) return has_weights;
  return std::string(row.item).starts_with("linear") ||
         (form == CoverageForm::kDynamicToken && std::string(row.item) == "lstm");
}

bool has_backend(const std::string& name) {
  const std::vector<std::string> names = backend_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  uint32_t seed = 77;
  for (const Value* value : graph.user_inputs()) {
    const std::vector<int64_t> shape = value->meta->shape();
    inputs.push_back(value->meta->dtype == DType::kFloat32
                         ? random_floats(shape, -1, 1, seed++)
                         : random_integers(value->meta->dtype, shape, seed++, 0, 1));
  }
  return inputs;
}

double value_at(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kFloat32 ? static_cast<double>(tensor.data<float>()[i])
                                           : static_cast<double>(tensor.data<int8_t>()[i]);
}

double magnitude_of(const Tensor& tensor) {
  double greatest = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    greatest = std::max(greatest, std::abs(value_at(tensor, i)));
  return greatest;
}

// In steps of integers, or as a share of the greatest element.
double distance(const Tensor& want, const Tensor& got) {
  double greatest = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double difference = std::abs(value_at(want, i) - value_at(got, i));
    greatest = std::isnan(difference) ? INFINITY : std::max(greatest, difference);
  }
  return want.dtype() == DType::kFloat32 ? greatest / std::max(magnitude_of(want), 1e-3) : greatest;
}

double limit_of(const Tensor& tensor) { return tensor.dtype() == DType::kFloat32 ? 2e-4 : 1; }

Program lowered_for(const Graph& graph, const std::string& backend) {
  Report report;
  return lower(graph, *make_support(backend), {}, report);
}

// ---- what ran where

bool is_conversion(const std::string& kind) {
  return kind == "quantize" || kind == "dequantize" || kind == "requantize" ||
         kind == "fake_quantize_dynamic" || kind == "cast";
}

// Ops that read and write integers and compute in floats.
bool computes_in_floats(const std::string& kind) {
  static const char* const kKinds[] = {"layer_norm", "rms_norm", "group_norm",
                                       "batch_norm", "reduce",   "prelu",
                                       "div",        "minimum",  "maximum"};
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [&](const char* known) { return kind == known; });
}

std::string place_of(const Program& program, const ProgramOp& op, const std::string& backend) {
  const auto reason = program.reasons.find(op.name);
  if (backend != "onednn")
    return "reference: " +
           (reason == program.reasons.end() ? std::string("no reason") : reason->second);
  const ProgramTensor& x = program.tensor(op.inputs[0]);
  if (x.qparams) return computes_in_floats(op.kind) ? "int8 by floats" : "int8";
  const auto made_at_run_time = [&](const ProgramOp& other) {
    return other.kind == "fake_quantize_dynamic" && other.outputs[0] == op.inputs[0];
  };
  const bool is_dynamic = std::any_of(program.ops.begin(), program.ops.end(), made_at_run_time);
  const ProgramTensor* w =
      op.inputs.size() > 1 && op.inputs[1] >= 0 ? &program.tensor(op.inputs[1]) : nullptr;
  const bool is_stored = w != nullptr && w->stored && w->stored->scale.defined();
  if (is_dynamic && is_stored) return "int8";
  std::string text = "float";
  if (is_stored) text += w->stored->bits() <= 4 ? ", 4-bit weights" : ", int8 weights";
  return reason == program.reasons.end() ? text : text + " (" + reason->second + ")";
}

// "matmul int8, softmax float": the ops that the call became, once each.
std::string kernels_of(const Program& program) {
  std::vector<std::string> parts;
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      if (is_conversion(op.kind) ||
          std::find(op.sources.begin(), op.sources.end(), "main") == op.sources.end())
        continue;
      const std::string part = op.kind + " " + place_of(program, op, segment.backend);
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    }
  return parts.empty() ? "none: only the view changes" : fmt::format("{}", fmt::join(parts, ", "));
}

// The kernels of one cell of the table; checks the numbers on the way.
std::string check_cell(const CoverageRow& row, const FormName& form) {
  CAPTURE(row.item, form.name);
  double scale = 0;
  if (form.form == CoverageForm::kStatic) {
    const Graph graph = make_graph(coverage_graph(row, form.form, 0));
    scale =
        magnitude_of(Session(lowered_for(graph, "reference")).run(inputs_of(graph)).front()) / 120;
  }
  const Graph graph = make_graph(coverage_graph(row, form.form, scale));
  const std::vector<Tensor> inputs = inputs_of(graph);
  const Tensor want = Session(lowered_for(graph, "reference")).run(inputs).front();
  const double from_interpreter =
      compare_with_interpreter(graph).greatest /
      (want.dtype() == DType::kFloat32 ? std::max(magnitude_of(want), 1e-3) : 1);
  CHECK(from_interpreter <= limit_of(want));
  const Program program = lowered_for(graph, "onednn");
  const double from_reference = distance(want, Session(program).run(inputs).front());
  CHECK(from_reference <= limit_of(want));
  return kernels_of(program);
}

// A cell of CSV.
std::string quoted(const std::string& cell) {
  return cell.find(',') == std::string::npos ? cell : fmt::format("\"{}\"", cell);
}

std::string coverage_table() {
  std::string table = "op,float,int8,other forms\n";
  for (const CoverageRow& row : coverage_rows()) {
    std::vector<std::string> others;
    std::string line = quoted(row.item);
    for (const FormName& form : kForms) {
      const bool has_column =
          form.form == CoverageForm::kFloat || form.form == CoverageForm::kStatic;
      const std::string cell = has_form(row, form.form) ? check_cell(row, form) : "";
      if (has_column) line += "," + quoted(cell);
      if (!has_column && !cell.empty()) others.push_back(fmt::format("{}: {}", form.name, cell));
    }
    table += fmt::format("{},{}\n", line, quoted(fmt::format("{}", fmt::join(others, "; "))));
  }
  return table;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool has_vnni() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace

TEST_CASE(
    "every op of the coverage list gives the same on the interpreter, the reference and oneDNN, by "
    "the kernels that coverage.csv names",
    "[lowering][coverage][tanh]") {
  if (!has_backend("onednn")) {
    WARN("skipped: oneDNN is not in this build");
    return;
  }
  const std::string table = coverage_table();
  if (std::getenv("OCTET_UPDATE_COVERAGE") != nullptr) {
    std::ofstream(OCTET_ONEDNN_COVERAGE) << table;
    return;
  }
  if (!has_vnni()) {
    WARN("coverage.csv is for CPUs with AVX512-VNNI; not compared here");
    return;
  }
  CHECK(text_of(OCTET_ONEDNN_COVERAGE) == table);
}

}  // namespace octet::test_coverage
