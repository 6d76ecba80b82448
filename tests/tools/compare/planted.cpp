#include "tests/tools/compare/planted.h"

#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/prepare/prepare.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "quantizers/registry.h"

namespace octet::test {
namespace {

const char* const kConvolutions = R"(graph(
    %w0 = param "w0": f32[8,4,3,3], %g0 = param "g0": f32[8], %b0 = param "b0": f32[8],
    %m0 = buffer "m0": f32[8], %v0 = buffer "v0": f32[8],
    %w1 = param "w1": f32[8,8,3,3], %b1 = param "b1": f32[8],
    %w2 = param "w2": f32[8,8,1,1], %b2 = param "b2": f32[8],
    %w3 = param "w3": f32[8,8,3,3], %b3 = param "b3": f32[8],
    %w4 = param "w4": f32[8,8], %b4 = param "b4": f32[8], %x: f32[4,4,12,12]):
  %conv0: f32[4,8,12,12] = aten.conv2d.default(%x, %w0, None, [1, 1], [1, 1])
  %norm0: f32[4,8,12,12] = aten.batch_norm.default(%conv0, %g0, %b0, %m0, %v0, False, 0.1, 1e-5, True)
  %relu0: f32[4,8,12,12] = aten.relu.default(%norm0)
  %conv1: f32[4,8,12,12] = aten.conv2d.default(%relu0, %w1, %b1, [1, 1], [1, 1])
  %relu1: f32[4,8,12,12] = aten.relu.default(%conv1)
  %conv2: f32[4,8,12,12] = aten.conv2d.default(%relu1, %w2, %b2)
  %sum: f32[4,8,12,12] = aten.add.Tensor(%conv2, %relu0)
  %relu2: f32[4,8,12,12] = aten.relu.default(%sum)
  %pool: f32[4,8,6,6] = aten.max_pool2d.default(%relu2, [2, 2], [2, 2])
  %conv3: f32[4,8,6,6] = aten.conv2d.default(%pool, %w3, %b3, [1, 1], [1, 1])
  %relu3: f32[4,8,6,6] = aten.relu.default(%conv3)
  %mean: f32[4,8] = aten.mean.dim(%relu3, [2, 3])
  %out: f32[4,8] = aten.linear.default(%mean, %w4, %b4)
  return (%out))";

const char* const kAttention = R"(graph(
    %wq = param "wq": f32[16,16], %bq = param "bq": f32[16],
    %wk = param "wk": f32[16,16], %bk = param "bk": f32[16],
    %wv = param "wv": f32[16,16], %bv = param "bv": f32[16],
    %wo = param "wo": f32[16,16], %bo = param "bo": f32[16],
    %g = param "g": f32[16], %b = param "b": f32[16],
    %w1 = param "w1": f32[32,16], %b1 = param "b1": f32[32],
    %w2 = param "w2": f32[16,32], %b2 = param "b2": f32[16], %x: f32[4,8,16]):
  %query: f32[4,8,16] = aten.linear.default(%x, %wq, %bq)
  %key: f32[4,8,16] = aten.linear.default(%x, %wk, %bk)
  %value: f32[4,8,16] = aten.linear.default(%x, %wv, %bv)
  %turned: f32[4,16,8] = aten.transpose.int(%key, 1, 2)
  %scores: f32[4,8,8] = aten.matmul.default(%query, %turned)
  %scaled: f32[4,8,8] = aten.mul.Tensor(%scores, 0.25)
  %weights: f32[4,8,8] = aten.softmax.int(%scaled, -1)
  %mixed: f32[4,8,16] = aten.matmul.default(%weights, %value)
  %out: f32[4,8,16] = aten.linear.default(%mixed, %wo, %bo)
  %sum: f32[4,8,16] = aten.add.Tensor(%x, %out)
  %norm: f32[4,8,16] = aten.layer_norm.default(%sum, [16], %g, %b)
  %up: f32[4,8,32] = aten.linear.default(%norm, %w1, %b1)
  %gelu: f32[4,8,32] = aten.gelu.default(%up)
  %down: f32[4,8,16] = aten.linear.default(%gelu, %w2, %b2)
  %last: f32[4,8,16] = aten.add.Tensor(%norm, %down)
  return (%last))";

// Weights of unit gain, so that no tensor grows without bound; factors and deviations are about 1.
Graph filled(const char* text, uint64_t seed) {
  Graph graph = parse_graph(text);
  at::Generator random = at::detail::createCPUGenerator(seed);
  for (auto& [fqn, constant] : graph.constants) {
    const std::vector<int64_t> shape = constant.tensor.shape();
    at::Tensor data = at::randn(shape, random, at::kFloat);
    if (shape.size() > 1)
      data = data.div(std::sqrt(static_cast<double>(data[0].numel()) / 1.5));
    else if (fqn[0] == 'g' || fqn[0] == 'v')
      data = data.abs().mul(0.2).add(0.8);
    else
      data = data.mul(0.2);
    constant.tensor = from_aten(data);
  }
  return graph;
}

Subject make_subject(const std::string& name, const char* text, const std::string& quantizer) {
  Subject subject{.name = name, .reference = filled(text, 7), .quantized = {}, .batches = {}};
  at::Generator random = at::detail::createCPUGenerator(11);
  const std::vector<int64_t> shape = subject.reference.user_inputs().front()->meta->shape();
  for (int i = 0; i < 4; ++i)
    subject.batches.push_back({at::randn(shape, random, at::kFloat).clamp(-2.5, 2.5)});
  Report report;
  const std::unique_ptr<Quantizer> chosen = make_quantizer(quantizer);
  ObservedGraph observed = prepare_pt2e(std::move(*clone(subject.reference)), *chosen, report, {});
  calibrate(observed, subject.batches);
  subject.quantized = convert_pt2e(std::move(observed), {}, report);
  return subject;
}

// ---- faults in the graph

std::vector<Node*> quantizes_of(Graph& graph) {
  std::vector<Node*> nodes;
  for (Node* node : graph.nodes()) {
    const std::optional<Quantization> quantization = find_quantization(node);
    if (is_quantize(node) && quantization && quantization->has_numbers()) nodes.push_back(node);
  }
  return nodes;
}

const Node* behind_dequantize(const Node* node) {
  while (is_dequantize(node)) node = node->output()->users().front();
  return node;
}

// The op whose result is quantized, and those that read it.
std::set<std::string> around(const Node& quantize) {
  std::set<std::string> names;
  const Value* value = quantize.find_input("input");
  names.insert(value->name());
  // rounded once for several readers, which share the blame
  if (value->users().size() > 1 || value->is_output())
    for (const Node* dequantize : quantize.output()->users())
      for (const Node* reader : dequantize->output()->users())
        names.insert(behind_dequantize(reader)->name());
  return names;
}

template <class Change>
std::set<std::string> with_parameters(Graph& graph, size_t index, const Change& change) {
  Node* quantize = quantizes_of(graph).at(index);
  std::vector<Node*> nodes = quantize->output()->users();
  nodes.push_back(quantize);
  for (Node* node : nodes) change(*node);
  return around(*quantize);
}

std::set<std::string> scale_times(Graph& graph, size_t index, double factor) {
  return with_parameters(graph, index, [&](Node& node) {
    node.set_argument("scale", node.float_or("scale", 1) * factor);
  });
}

std::set<std::string> zero_point_plus(Graph& graph, size_t index, int64_t distance) {
  return with_parameters(graph, index, [&](Node& node) {
    const int64_t moved = node.int_or("zero_point", 0) + distance;
    node.set_argument("zero_point", std::clamp(moved, node.int_or("quant_min", -128),
                                               node.int_or("quant_max", 127)));
  });
}

std::set<std::string> range_halved(Graph& graph, size_t index) {
  return with_parameters(graph, index, [&](Node& node) {
    const int64_t least = node.int_or("quant_min", -128), most = node.int_or("quant_max", 127);
    node.set_argument("quant_max", least + (most - least) / 2);
  });
}

// One reader dequantizes with another scale than the tensor has.
std::set<std::string> reader_scale_times(Graph& graph, size_t index, double factor) {
  Node* dequantize = quantizes_of(graph).at(index)->output()->users().front();
  dequantize->set_argument("scale", dequantize->float_or("scale", 1) * factor);
  std::set<std::string> names;
  for (const Node* reader : dequantize->output()->users()) {
    names.insert(reader->name());
    // a view passes the fault on to its reader
    for (const Node* next : reader->outputs().front()->users()) names.insert(next->name());
  }
  names.insert(quantizes_of(graph).at(index)->find_input("input")->name());
  return names;
}

struct Layer {
  Node* op;
  Node* dequantize;  // of its weight
};

std::vector<Layer> layers_of(Graph& graph) {
  std::vector<Layer> layers;
  for (Node* node : graph.nodes()) {
    Value* weight =
        node->is("aten.conv2d") || node->is("aten.linear") ? node->find_input("weight") : nullptr;
    if (weight != nullptr && is_dequantize(weight->producer()))
      layers.push_back({node, weight->producer()});
  }
  return layers;
}

std::set<std::string> with_constant(Graph& graph, const Layer& layer, const Value* value,
                                    const std::function<at::Tensor(const at::Tensor&)>& change) {
  Constant& constant = graph.constants.at(graph.find_input(value)->fqn);
  constant.tensor = from_aten(change(to_aten(constant.tensor)).contiguous());
  return {layer.op->name()};
}

std::set<std::string> with_weight(Graph& graph, size_t index,
                                  const std::function<at::Tensor(const at::Tensor&)>& change) {
  const Layer layer = layers_of(graph).at(index);
  return with_constant(graph, layer, layer.dequantize->find_input("input"), change);
}

std::set<std::string> with_scales(Graph& graph, size_t index) {
  const Layer layer = layers_of(graph).at(index);
  Value* scales = layer.dequantize->find_input("scales");
  // one scale for all: the wrong one
  if (scales == nullptr) {
    layer.dequantize->set_argument("scale", layer.dequantize->float_or("scale", 1) * 1.5);
    return {layer.op->name()};
  }
  return with_constant(graph, layer, scales, [](const at::Tensor& tensor) {
    const at::Tensor shifts = at::linspace(0.5, 1.5, tensor.numel()).to(tensor.scalar_type());
    return tensor.mul(shifts);
  });
}

std::set<std::string> with_bias(Graph& graph, size_t index) {
  const Layer layer = layers_of(graph).at(index);
  return with_constant(graph, layer, layer.op->find_input("bias"),
                       [](const at::Tensor& tensor) { return tensor.add(0.5); });
}

// ---- faults in the lowered program

std::vector<size_t> weighted_ops(const Program& program) {
  std::vector<size_t> ops;
  for (size_t i = 0; i < program.ops.size(); ++i)
    if ((program.ops[i].kind == "conv" || program.ops[i].kind == "linear") &&
        program.input(program.ops[i], 1).is_constant())
      ops.push_back(i);
  return ops;
}

// A changed copy of a constant.
void change_constant(Program& program, int tensor,
                     const std::function<at::Tensor(const at::Tensor&)>& change) {
  ProgramTensor& constant = program.tensor(tensor);
  constant.data = from_aten(change(to_aten(constant.data).clone()).contiguous());
}

std::set<std::string> names_of(const ProgramOp& op) {
  std::set<std::string> names(op.sources.begin(), op.sources.end());
  names.insert(op.name);
  return names;
}

}  // namespace

std::vector<Subject> make_subjects() {
  std::vector<Subject> subjects;
  subjects.push_back(make_subject("convolutions for x86", kConvolutions, "x86"));
  subjects.push_back(make_subject("convolutions for XNNPACK", kConvolutions, "xnnpack"));
  subjects.push_back(make_subject("attention for x86", kAttention, "x86"));
  return subjects;
}

std::vector<Fault> faults_of(const Subject& subject, const Program& program) {
  std::vector<Fault> faults;
  const auto in_graph = [&](const std::string& name,
                            std::function<std::set<std::string>(Graph&)> plant) {
    faults.push_back({.name = name, .in_graph = std::move(plant)});
  };
  Graph& graph = const_cast<Graph&>(subject.quantized);  // only read
  const size_t tensors = quantizes_of(graph).size(), layers = layers_of(graph).size();
  for (size_t i = 0; i < std::min<size_t>(tensors, 4); ++i) {
    const size_t at = i * tensors / 4;
    in_graph(fmt::format("scale of tensor {} times 12", at),
             [=](Graph& g) { return scale_times(g, at, 12); });
    in_graph(fmt::format("scale of tensor {} over 6", at),
             [=](Graph& g) { return scale_times(g, at, 1.0 / 6); });
    in_graph(fmt::format("zero point of tensor {} moved", at),
             [=](Graph& g) { return zero_point_plus(g, at, i % 2 == 0 ? 70 : 90); });
    in_graph(fmt::format("range of tensor {} halved", at),
             [=](Graph& g) { return range_halved(g, at); });
    in_graph(fmt::format("a reader of tensor {} has another scale", at),
             [=](Graph& g) { return reader_scale_times(g, at, 1.3); });
  }
  for (size_t layer = 0; layer < layers; ++layer) {
    in_graph(fmt::format("layer {} has its channels in another order", layer), [=](Graph& g) {
      return with_weight(g, layer, [](const at::Tensor& w) { return w.roll({1}, {0}); });
    });
    in_graph(fmt::format("layer {} has scales of another axis", layer),
             [=](Graph& g) { return with_scales(g, layer); });
    in_graph(fmt::format("layer {} has a stale bias", layer),
             [=](Graph& g) { return with_bias(g, layer); });
    const Layer own = layers_of(graph)[layer];
    const std::vector<int64_t> shape = own.op->find_input("weight")->meta->shape();
    if (shape[0] == shape[1])
      in_graph(fmt::format("layer {} has its weight transposed", layer), [=](Graph& g) {
        return with_weight(g, layer, [](const at::Tensor& w) { return w.transpose(0, 1); });
      });
  }
  for (size_t op : weighted_ops(program)) {
    const auto in_program = [&](const std::string& what, std::function<void(Program&)> change) {
      faults.push_back({.name = fmt::format("lowered {}: {}", program.ops[op].name, what),
                        .in_program = [=](Program& changed) {
                          change(changed);
                          return names_of(changed.ops[op]);
                        }});
    };
    const ProgramOp& own = program.ops[op];
    in_program("a kernel that saturates", [=](Program& changed) {
      const ProgramTensor& output = changed.output(changed.ops[op]);
      const double most = output.qparams ? 60.0 * output.qparams->scale.front() : 0.3;
      changed.ops[op].attributes["post_max"] = most;
    });
    if (own.is("conv") && own.get(attr::kPadding)[0] == 1)
      in_program("another padding", [=](Program& changed) {
        changed.ops[op].attributes["padding"] = std::vector<int64_t>{0, 2};
        changed.ops[op].attributes["padding_end"] = std::vector<int64_t>{2, 0};
      });
    if (own.has_input(2))
      in_program("a stale bias", [=](Program& changed) {
        change_constant(changed, changed.ops[op].inputs[2],
                        [](const at::Tensor& bias) { return bias.mul(3).add(bias.roll({1})); });
      });
  }
  return faults;
}

}  // namespace octet::test
