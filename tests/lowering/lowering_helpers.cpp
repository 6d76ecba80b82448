#include "tests/lowering/lowering_helpers.h"

#include <cmath>
#include <sstream>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "backends/conformance/program_builder.h"
#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "lowering/lower.h"

namespace octet {

Graph make_graph(const std::string& text) {
  Graph graph = parse_graph(text);
  uint32_t seed = 1;
  for (auto& [name, constant] : graph.constants) {
    const DType dtype = constant.tensor.dtype();
    const std::vector<int64_t> shape = constant.tensor.shape();
    const bool is_scale = name.find("scale") != std::string::npos;
    const bool is_signed = dtype == DType::kInt8;
    const bool is_nibble = name.find("int4") != std::string::npos;
    if (is_signed || dtype == DType::kUInt8)
      constant.tensor = random_integers(
          dtype, shape, seed, is_nibble ? (is_signed ? -8 : 0) : (is_signed ? -127 : 0),
          is_nibble ? std::optional<int64_t>(is_signed ? 7 : 15) : std::nullopt);
    if (dtype == DType::kFloat32)
      constant.tensor =
          is_scale ? random_floats(shape, 0.005f, 0.02f, seed) : random_floats(shape, -1, 1, seed);
    ++seed;
  }
  return graph;
}

std::string ops_text(const Program& program) {
  std::istringstream lines(to_text(program));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("input ") || line.starts_with("scale ")) continue;
    const size_t backend = line.starts_with("reference ") ? 10 : 0;
    text += line.substr(backend) + "\n";
  }
  return text;
}

std::string lowered(const Graph& graph) {
  Report report;
  return ops_text(lower(graph, ReferenceSupport(), {}, report));
}

std::string error_of(const Graph& graph) {
  try {
    lowered(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

namespace {

Tensor random_input(DType dtype, const std::vector<int64_t>& shape, uint32_t seed) {
  if (dtype == DType::kFloat32) return random_floats(shape, -1, 1, seed);
  if (dtype != DType::kBool) return random_integers(dtype, shape, seed, 0, 1);
  const Tensor numbers = random_integers(DType::kUInt8, shape, seed, 0, 1);
  const Tensor flags = Tensor::zeros(dtype, shape);
  for (int64_t i = 0; i < flags.numel(); ++i)
    flags.data<bool>()[i] = numbers.data<uint8_t>()[i] != 0;
  return flags;
}

// Adds what one run gives.
void compare(const std::vector<c10::IValue>& want, const std::vector<Tensor>& got, double& count,
             Difference& difference) {
  for (size_t i = 0; i < got.size(); ++i) {
    const at::Tensor expected = want[i].toTensor().contiguous();
    if (expected.sizes().vec() != got[i].shape() ||
        from_scalar_type(expected.scalar_type()) != got[i].dtype()) {
      difference = {INFINITY, INFINITY};
      return;
    }
    const at::Tensor a = expected.to(at::kDouble).contiguous(),
                     b = to_aten(got[i]).to(at::kDouble).contiguous();
    for (int64_t j = 0; j < a.numel(); ++j) {
      const double d = std::abs(a.data_ptr<double>()[j] - b.data_ptr<double>()[j]);
      difference.greatest = std::isnan(d) ? INFINITY : std::max(difference.greatest, d);
      difference.share += d > 1e-5 ? 1 : 0;
      count += 1;
    }
  }
}

}  // namespace

double greatest_result(const Graph& graph) {
  uint32_t seed = 77;
  std::vector<c10::IValue> inputs;
  for (const Value* value : graph.user_inputs())
    inputs.emplace_back(to_aten(random_input(value->meta->dtype, value->meta->shape(), seed++)));
  return Interpreter(graph).run(inputs).front().toTensor().abs().max().item<double>();
}

Program reference_program(const Graph& graph) {
  Report report;
  return lower(graph, ReferenceSupport(), {}, report);
}

Difference compare_with_interpreter(const Graph& graph, bool fuse, int runs) {
  return compare_on_backend(graph, "reference", fuse, runs);
}

Difference compare_on_backend(const Graph& graph, const std::string& backend, bool fuse, int runs) {
  Interpreter interpreter(graph);
  Report report;
  LowerOptions options;
  options.fuse = fuse;
  Session session(lower(graph, *make_support(backend), options, report));
  Difference difference;
  double count = 0;
  uint32_t seed = 77;
  for (int run = 0; run < runs; ++run) {
    std::vector<c10::IValue> inputs;
    std::vector<Tensor> tensors;
    for (const Value* value : graph.user_inputs()) {
      tensors.push_back(random_input(value->meta->dtype, value->meta->shape(), seed++));
      inputs.emplace_back(to_aten(tensors.back()));
    }
    compare(interpreter.run(inputs), session.run(tensors), count, difference);
  }
  difference.share /= std::max(count, 1.0);
  return difference;
}

double greatest_in_four_runs(const std::string& text) {
  const Graph graph = make_graph(text);
  const double unfused = compare_with_interpreter(graph, false, 4).greatest;
  return std::max(unfused, compare_with_interpreter(graph, true, 4).greatest);
}

}  // namespace octet
