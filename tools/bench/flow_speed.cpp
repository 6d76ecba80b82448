// Measures how long prepare and convert take, without running the model. flow_speed.py runs it, and
// other libraries for comparison.
//
//   octet_flow_speed MODEL.pt2 QUANTIZER [REPEATS]
//       one line of JSON: the least processor time of each step in ms
//   octet_flow_speed --chain QUANTIZER NODES...
//       the same for chains of linear, relu and add, one line each
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "quantizers/registry.h"

namespace octet {
namespace {

// Uses the processor time of this process, so that other processes do not count.
double milliseconds() { return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::vector<c10::IValue> make_inputs(const Graph& graph) {
  std::vector<c10::IValue> inputs;
  for (const Value* input : graph.user_inputs()) {
    if (!input->meta)
      throw Error("bench", "%" + input->name(), "its shape is unknown, want a tensor input");
    if (is_floating_point(input->meta->dtype))
      inputs.emplace_back(at::rand(input->meta->shape()));
    else
      inputs.emplace_back(at::randint(1, 100, input->meta->shape(), at::kLong));
  }
  return inputs;
}

struct Times {
  double prepare = 1e30;
  double convert = 1e30;
  size_t nodes = 0;            // in the float graph
  size_t converted_nodes = 0;  // in the q/dq graph
};

// Runs the model once between the two steps, untimed, because convert needs ranges.
Times measure(const Graph& graph, const std::string& quantizer_name, int repeats) {
  Times times;
  times.nodes = graph.node_count();
  for (int i = 0; i < repeats; ++i) {
    const std::unique_ptr<Quantizer> quantizer = make_quantizer(quantizer_name);
    std::unique_ptr<Graph> copy = clone(graph);
    Report report;
    double start = milliseconds();
    ObservedGraph observed = prepare_pt2e(std::move(*copy), *quantizer, report);
    times.prepare = std::min(times.prepare, milliseconds() - start);
    calibrate(observed, {make_inputs(observed.graph)});
    start = milliseconds();
    const Graph converted = convert_pt2e(std::move(observed), {}, report);
    times.convert = std::min(times.convert, milliseconds() - start);
    times.converted_nodes = converted.node_count();
  }
  return times;
}

void print(const Times& times) {
  fmt::print(
      "{{\"nodes\": {}, \"converted_nodes\": {}, \"prepare_ms\": {:.3f}, \"convert_ms\": "
      "{:.3f}}}\n",
      times.nodes, times.converted_nodes, times.prepare, times.convert);
  std::fflush(stdout);
}

// x -> linear -> relu -> + x -> linear ..., where each linear has separate weights.
Graph make_chain(int node_count) {
  const TensorMeta meta = make_meta(DType::kFloat32, {2, 4});
  Graph graph;
  std::vector<Value*> weights;
  for (int i = 0; i < node_count / 3; ++i) {
    Tensor tensor = Tensor::zeros(DType::kFloat32, {4, 4});
    for (int64_t k = 0; k < 16; ++k)
      tensor.data<float>()[k] = 1e-6f * static_cast<float>((k * 7 + i) % 9 - 4);
    weights.push_back(graph.add_constant(fmt::format("layers.{}.weight", i), std::move(tensor),
                                         InputKind::kParameter));
  }
  Value* x = graph.add_input("x", ValueKind::kTensor, meta);
  for (Value* weight : weights) {
    const auto call = [&](const char* target, const char* name,
                          std::vector<NamedArgument> arguments) {
      return graph.insert(target, std::move(arguments), name, meta, nullptr)->output();
    };
    Value* y = call("aten.linear.default", "linear", {{"input", x}, {"weight", weight}});
    y = call("aten.relu.default", "relu", {{"self", y}});
    x = call("aten.add.Tensor", "add", {{"self", y}, {"other", x}});
  }
  graph.add_output({.value = x, .target = {}});
  return graph;
}

int run(int argc, char** argv) {
  if (argc < 3)
    throw Error("bench", "arguments",
                "want MODEL.pt2 QUANTIZER [REPEATS] or --chain QUANTIZER NODES...");
  if (std::string(argv[1]) == "--chain") {
    for (int i = 3; i < argc; ++i) print(measure(make_chain(std::atoi(argv[i])), argv[2], 1));
    return 0;
  }
  print(measure(read_pt2(argv[1]), argv[2], argc > 3 ? std::atoi(argv[3]) : 3));
  return 0;
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  try {
    return octet::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
