// Reads the programs of make_models.py with read_pt2.
#include <catch2/catch.hpp>

#include <cmath>

#include "core/pt2/archive.h"
#include "core/pt2/archive_fixture.h"
#include "core/pt2/reader.h"

namespace octet::test_pt2_reader {
using octet::testing::model_path;

namespace {

Node* only(const Graph& graph, std::string_view op) {
  const std::vector<Node*> nodes = graph.nodes_of(op);
  REQUIRE(nodes.size() == 1);
  return nodes.front();
}

const GraphInput* find_role(const Graph& graph, const std::string& fqn) {
  for (const GraphInput& input : graph.inputs())
    if (input.fqn == fqn) return &input;
  return nullptr;
}

}  // namespace

TEST_CASE("a convolution is read with its inputs, sizes, literals and module", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("net"));
  const Node* conv = only(graph, "aten.conv2d");
  CHECK(conv->target() == "aten.conv2d.default");
  CHECK(conv->name() == "conv2d");
  CHECK(conv->ints_or("padding", {}) == std::vector<int64_t>{1, 1});
  CHECK(conv->output()->meta->shape() == std::vector<int64_t>{2, 4, 8, 8});
  CHECK(module_stack(*conv).back().path == "conv");
  CHECK(graph.find_constant(conv->find_input("weight"))->shape() ==
        std::vector<int64_t>{4, 3, 3, 3});
  CHECK(graph.find_input(conv->find_input("weight"))->kind == InputKind::kParameter);
  CHECK(graph.constants.at("conv.weight").is_parameter);
  CHECK(graph.user_inputs().size() == 1);
  CHECK(graph.outputs().size() == 1);
}

TEST_CASE("extra files and sample inputs are kept as bytes", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("net"));
  std::map<std::string, std::string> records(graph.extras->records.begin(),
                                             graph.extras->records.end());
  CHECK(records.at("extra/notes.txt") == "kept unchanged \xc3\xa4");
  CHECK(records.at("extra/folder/version") == "3");
  CHECK(records.contains("data/sample_inputs/model.pt"));
}

TEST_CASE("tied weights share one storage", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("tied"));
  CHECK(graph.constants.at("embed.weight").tensor.storage() ==
        graph.constants.at("head.weight").tensor.storage());
}

TEST_CASE("weights view the mapped file", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("net"));
  const Storage& first = *graph.constants.at("conv.weight").tensor.storage();
  const Storage& second = *graph.constants.at("fc.weight").tensor.storage();
  CHECK(first.owner == second.owner);
  CHECK(reinterpret_cast<uintptr_t>(first.data) % 64 == 0);
}

TEST_CASE("slices of one storage keep offset and strides", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("slices"));
  const Tensor& first = graph.constants.at("first").tensor;
  const Tensor& second = graph.constants.at("second").tensor;
  const Tensor& third = graph.constants.at("every_second").tensor;
  CHECK(first.storage() == second.storage());
  CHECK(first.storage() == third.storage());
  CHECK(second.offset() == 4);
  CHECK(second.data<float>()[0] == 4.0f);
  CHECK(third.strides() == std::vector<int64_t>{2});
  CHECK(third.contiguous().data<float>()[5] == 11.0f);
  CHECK(graph.constants.at("transposed").tensor.strides() == std::vector<int64_t>{1, 4});
}

TEST_CASE("empty, zero-dimensional and all dtypes of buffers are read", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("slices"));
  CHECK(graph.constants.at("empty").tensor.shape() == std::vector<int64_t>{0, 4});
  CHECK(graph.constants.at("empty").tensor.numel() == 0);
  CHECK(graph.constants.at("scalar").tensor.shape().empty());
  CHECK(graph.constants.at("scalar").tensor.data<float>()[0] == 2.5f);
  CHECK(graph.constants.at("f16").tensor.dtype() == DType::kFloat16);
  CHECK(graph.constants.at("bf16").tensor.dtype() == DType::kBFloat16);
  CHECK(graph.constants.at("flags").tensor.dtype() == DType::kBool);
  CHECK(graph.constants.at("u8").tensor.dtype() == DType::kUInt8);
  CHECK(graph.constants.at("c64").tensor.dtype() == DType::kComplex64);
}

TEST_CASE("a channels-last weight keeps its strides", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("channels_last"));
  CHECK(graph.constants.at("conv.weight").tensor.strides() == std::vector<int64_t>{36, 1, 12, 4});
}

TEST_CASE("lifted constants and buffers outside of the state dict are told apart", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("constants"));
  REQUIRE(find_role(graph, "hidden") != nullptr);
  CHECK(find_role(graph, "hidden")->kind == InputKind::kBuffer);
  CHECK_FALSE(find_role(graph, "hidden")->persistent);
  REQUIRE(find_role(graph, "lifted_tensor_0") != nullptr);
  CHECK(find_role(graph, "lifted_tensor_0")->kind == InputKind::kTensorConstant);
  const double fill = only(graph, "aten.masked_fill")->float_or("value", 0);
  CHECK(std::isinf(fill));
  CHECK(fill < 0);
}

TEST_CASE("mutations of buffers and inputs are in-place nodes", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("mutating"));
  CHECK(graph.nodes_of("aten.add_.Tensor").size() == 1);
  CHECK(graph.nodes_of("aten.mul_.Tensor").size() == 1);
  CHECK(find_role(graph, "count")->persistent);
}

TEST_CASE("mutations of a decomposed program are outputs", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("mutating_decomposed"));
  REQUIRE(graph.outputs().size() == 3);
  CHECK(graph.outputs()[0].kind == OutputKind::kBufferMutation);
  CHECK(graph.outputs()[0].target == "count");
  CHECK(graph.outputs()[1].kind == OutputKind::kUserInputMutation);
  CHECK(graph.outputs()[1].target == "state");
  CHECK(graph.outputs()[2].kind == OutputKind::kUserOutput);
}

TEST_CASE("symbolic sizes keep expression, hint and range", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("dynamic"));
  const TensorMeta& meta = *graph.user_inputs().front()->meta;
  CHECK_FALSE(meta.is_static());
  CHECK(meta.sizes[0].is_symbolic());
  CHECK(meta.shape() == std::vector<int64_t>{4, 2, 3});
  REQUIRE(graph.range_constraints.size() == 1);
  CHECK(graph.range_constraints.begin()->second == RangeConstraint{2, 16});
  const Node* size = graph.nodes_of("aten.sym_size").front();
  CHECK(size->output()->kind() == ValueKind::kSymInt);
  CHECK(size->output()->symbol_hint == 4);
  CHECK(only(graph, "aten.reshape")->find_argument("shape")->find<SymIntList>() != nullptr);
  CHECK_FALSE(graph.nodes_of("_operator.floordiv").empty());
}

TEST_CASE("inputs that are not tensors are constants with their name", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("plain"));
  REQUIRE(graph.inputs().size() == 6);
  CHECK(graph.user_inputs().size() == 1);
  CHECK(graph.inputs()[1].kind == InputKind::kConstant);
  CHECK(graph.inputs()[1].value->name() == "count");
  CHECK(graph.inputs()[1].constant == Argument(2));
  CHECK(*graph.inputs()[2].constant.find<double>() == 0.5);
  CHECK(*graph.inputs()[3].constant.find<bool>());
  CHECK(graph.inputs()[4].constant.is_none());
  CHECK(*graph.inputs()[5].constant.find<std::string>() == "word");
  CHECK(graph.outputs()[1].value.is_none());
  const Graph symbolic = read_pt2(model_path("symbolic_inputs"));
  CHECK(symbolic.user_inputs().at(1)->kind() == ValueKind::kSymInt);
}

TEST_CASE("the branches of cond are separate graphs", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("branch"));
  const Node* cond = only(graph, "higher_order.cond");
  REQUIRE(cond->arguments().size() == 4);
  const Subgraph* branch = cond->arguments()[1].value.find<Subgraph>();
  REQUIRE(branch != nullptr);
  CHECK(branch->name == "true_graph_0");
  CHECK(branch->graph->nodes_of("aten.linear").size() == 1);
  CHECK(branch->graph->inputs().size() == 3);
  CHECK(branch->graph->outputs().size() == 1);
}

TEST_CASE("while_loop and scan are read with their bodies", "[core][pt2]") {
  for (const char* name : {"while_loop", "scan"}) {
    const Graph graph = read_pt2(model_path(name));
    const Node* loop = only(graph, std::string("higher_order.") + name);
    const auto is_body = [](const NamedArgument& argument) {
      return argument.value.find<Subgraph>() != nullptr;
    };
    CHECK(std::count_if(loop->arguments().begin(), loop->arguments().end(), is_body) ==
          (std::string(name) == "scan" ? 1 : 2));
    CHECK(loop->outputs().size() == 2);
  }
}

TEST_CASE("a list result is one slot, several results are several", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("multiple"));
  const Node* split = only(graph, "aten.split");
  REQUIRE(split->results().size() == 1);
  CHECK(split->results()[0].kind == ResultSlot::Kind::kList);
  CHECK(split->outputs().size() == 3);
  const Node* topk = only(graph, "aten.topk");
  CHECK(topk->results().size() == 2);
  CHECK(topk->outputs()[1]->index() == 1);
  const OptionalTensors* indices =
      only(graph, "aten.index")->find_argument("indices")->find<OptionalTensors>();
  if (indices != nullptr) CHECK(indices->items.size() <= 3);
}

TEST_CASE("int, float and bool symbols are values", "[core][pt2]") {
  const Graph graph = read_pt2(model_path("symbols"));
  std::map<ValueKind, int> counts;
  for (const Node* node : graph.nodes())
    for (const Value* value : node->outputs()) ++counts[value->kind()];
  CHECK(counts[ValueKind::kSymInt] >= 2);
  CHECK(counts[ValueKind::kSymFloat] == 1);
  CHECK(counts[ValueKind::kSymBool] == 2);
}

}  // namespace octet::test_pt2_reader
