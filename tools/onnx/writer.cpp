#include "tools/onnx/writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

const OnnxRow* find_onnx_row(const std::string& kind) {
  for (const std::span<const OnnxRow> table :
       {element_onnx_rows(), indexing_onnx_rows(), product_onnx_rows(), window_onnx_rows(),
        reduction_onnx_rows(), quantization_onnx_rows(), dynamic_onnx_rows(), control_onnx_rows()})
    for (const OnnxRow& row : table)
      if (kind == row.kind) return &row;
  return nullptr;
}

using Nodes = std::unordered_map<std::string, const Node*>;
using Paths = std::unordered_map<std::string, std::string>;

// Collects names of a graph and its bodies; those of the outer graph win.
void collect_names(const Graph& graph, Nodes& nodes, Paths& paths) {
  for (const GraphInput& input : graph.inputs())
    if (input.value != nullptr && !input.fqn.empty()) paths.emplace(input.value->name(), input.fqn);
  for (const Node* node : graph.nodes()) {
    nodes.emplace(node->name(), node);
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* body = argument.value.find<Subgraph>(); body != nullptr && body->graph)
        collect_names(*body->graph, nodes, paths);
  }
}

template <typename T>
Tensor one(double value, DType dtype) {
  const T number = static_cast<T>(value);
  return Tensor::from<T>(dtype, {}, std::span<const T>(&number, 1));
}

std::optional<Tensor> number_tensor(double value, DType dtype) {
  switch (dtype) {
    case DType::kBool: return one<bool>(value, dtype);
    case DType::kFloat32: return one<float>(value, dtype);
    case DType::kFloat64: return one<double>(value, dtype);
    case DType::kInt64: return one<int64_t>(value, dtype);
    case DType::kInt32: return one<int32_t>(value, dtype);
    case DType::kInt8: return one<int8_t>(value, dtype);
    case DType::kUInt8: return one<uint8_t>(value, dtype);
    case DType::kInt16: return one<int16_t>(value, dtype);
    case DType::kUInt16: return one<uint16_t>(value, dtype);
    default: return std::nullopt;
  }
}

// The graph node that an op was made from.
std::string source_of(const ProgramOp& op) {
  return op.sources.empty() ? op.name : op.sources.front();
}

const char* operator_of(SizeExpr::Kind kind) {
  switch (kind) {
    case SizeExpr::Kind::kAdd: return "Add";
    case SizeExpr::Kind::kMultiply: return "Mul";
    case SizeExpr::Kind::kModulo: return "Mod";
    case SizeExpr::Kind::kMinimum: return "Min";
    case SizeExpr::Kind::kMaximum: return "Max";
    default: return "Div";
  }
}

}  // namespace

OnnxScope::OnnxScope(const Program& program, OnnxScope* outer)
    : program(program),
      outer(outer),
      names(program.tensors.size()),
      producers(program.tensors.size()),
      users(program.tensors.size()),
      is_result(program.tensors.size()) {
  for (const ProgramOp& op : program.ops) {
    for (int index : op.outputs) producers[static_cast<size_t>(index)] = &op;
    for (int index : op.inputs)
      if (index >= 0) users[static_cast<size_t>(index)].push_back(&op);
  }
  for (int index : program.results()) is_result[static_cast<size_t>(index)] = true;
}

OnnxWriter::OnnxWriter(const Graph& graph, const Program& program, const OnnxOptions& options)
    : source_(graph), has_integer_biases_(options.has_integer_biases), top_(program, nullptr) {
  model_.opset = options.opset.value_or(kLeastOpset);
  collect_names(graph, nodes_, paths_);
}

// ---- names

std::string OnnxWriter::fresh_name(const std::string& base) {
  std::string name = base;
  for (int suffix = 1; !names_.insert(name).second; ++suffix)
    name = fmt::format("{}_{}", base, suffix);
  return name;
}

const Node* OnnxWriter::find_node(const ProgramOp& op) const {
  const auto found = nodes_.find(source_of(op));
  return found == nodes_.end() ? nullptr : found->second;
}

std::string OnnxWriter::target_of(const ProgramOp& op) const {
  const Node* node = find_node(op);
  return node == nullptr ? op.kind : node->target();
}

std::string OnnxWriter::module_of(const ProgramOp& op) const {
  const Node* node = find_node(op);
  const std::vector<ModuleFrame> stack =
      node == nullptr ? std::vector<ModuleFrame>() : module_stack(*node);
  return stack.empty() ? op.module : stack.back().path;
}

std::string OnnxWriter::constant_name(const std::string& tensor) const {
  if (const auto path = paths_.find(tensor); path != paths_.end()) return path->second;
  // a dequantize that became a stored constant
  const auto node = nodes_.find(tensor);
  const Value* input = node == nodes_.end() ? nullptr : node->second->find_input("input");
  const auto path = input == nullptr ? paths_.end() : paths_.find(input->name());
  return path == paths_.end() ? tensor : path->second;
}

std::string OnnxWriter::name_of(int index) {
  std::string& name = scope_->names[static_cast<size_t>(index)];
  if (!name.empty()) return name;
  const ProgramTensor& tensor = scope_->program.tensor(index);
  if (!tensor.is_constant()) {  // made by a refused op
    OCTET_ASSERT(!refusals_.empty(), "%" + tensor.name + " is read before it is written");
    return tensor.name;
  }
  const bool is_number = tensor.shape.empty() && !paths_.contains(tensor.name) &&
                         (tensor.dtype == DType::kFloat32 || tensor.dtype == DType::kFloat64 ||
                          tensor.dtype == DType::kBool);
  if (is_number) return name = number(constant_values(constant_data(tensor))[0], tensor.dtype);
  const Tensor data = constant_data(tensor).contiguous();
  if (tensor.stored) return name = add_initializer(constant_name(tensor.name), data);
  std::string& known = stored_[{data.raw(), describe(data)}];  // bodies share constants
  if (known.empty()) known = add_initializer(constant_name(tensor.name), data);
  return name = known;
}

void OnnxWriter::give(int index, const std::string& name) {
  std::string given = name;
  if (!graph_->nodes.empty() && !given_.contains(name)) {
    Names& results = graph_->nodes.back().outputs;
    const auto result = std::ranges::find(results, name);
    if (result != results.end()) {
      const std::string& wanted = scope_->program.tensor(index).name;
      given = *result = scope_ == &top_ ? wanted : fresh_name(wanted);
    }
  }
  given_.insert(given);
  scope_->names[static_cast<size_t>(index)] = given;
}

// ---- constants

std::string OnnxWriter::add_initializer(const std::string& name, OnnxType type,
                                        std::vector<int64_t> shape, Tensor data) {
  model_.initializers.push_back({fresh_name(name), type, std::move(shape), data.contiguous()});
  return model_.initializers.back().name;
}

std::string OnnxWriter::add_initializer(const std::string& name, Tensor data) {
  const OnnxType type = onnx_type_of(data.dtype(), name);
  std::vector<int64_t> shape = data.shape();
  return add_initializer(name, type, std::move(shape), std::move(data));
}

std::string OnnxWriter::number(double value, DType dtype) {
  const std::optional<Tensor> made = number_tensor(value, dtype);
  if (!made) {  // float16: a node, visible only in this graph
    const std::string cast = fresh_name("number");
    add_node({"Cast",
              fresh_name("number_cast"),
              {number(value, DType::kFloat32)},
              {cast},
              {{"to", static_cast<int64_t>(onnx_type_of(dtype, "a number"))}},
              {}});
    return cast;
  }
  std::string& name = numbers_[fmt::format("{} {:a}", octet::name_of(dtype), value)];
  if (name.empty()) name = add_initializer("number", *made);
  return name;
}

std::string OnnxWriter::ints(const std::vector<int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty())
    name = add_initializer(
        "ints",
        Tensor::from<int64_t>(DType::kInt64, {static_cast<int64_t>(values.size())}, values));
  return name;
}

// ---- sizes

std::string OnnxWriter::size_node(const char* type, Names inputs, OnnxAttributes attributes) {
  const std::string name = fresh_name("size");
  add_node({type, name + "/" + type, std::move(inputs), {name}, std::move(attributes), {}});
  return name;
}

// Finds a dimension of an input that is this symbol.
std::string OnnxWriter::symbol(const std::string& name, const std::string& subject) {
  const SizeExpr wanted = SizeExpr::symbol(name);
  for (const OnnxScope* scope = scope_; scope != nullptr; scope = scope->outer)
    for (int index : scope->program.inputs) {
      if (index < 0) continue;
      const std::vector<SizeExpr>& sizes = scope->program.tensor(index).sizes;
      const auto found = std::ranges::find(sizes, wanted);
      if (found == sizes.end()) continue;
      const int64_t dim = found - sizes.begin();
      return size_node("Shape", {scope->names[static_cast<size_t>(index)]},
                       {{"start", dim}, {"end", dim + 1}});
    }
  throw Error("onnx", subject,
              fmt::format("has the size {}, which no input's shape gives; export with a dimension "
                          "that is this symbol, or a fixed one",
                          name));
}

// Computes a size again for each reader, which costs a few cheap nodes.
std::string OnnxWriter::size(const SizeExpr& size, const std::string& subject) {
  if (size.is_number()) return ints({size.number()});
  Names stack;
  for (const SizeExpr::Step& step : size.steps()) {
    if (step.kind == SizeExpr::Kind::kNumber) {
      stack.push_back(ints({step.number}));
    } else if (step.kind == SizeExpr::Kind::kSymbol) {
      stack.push_back(symbol(step.symbol, subject));
    } else {
      const std::string b = stack.back();
      stack.pop_back();
      // Sizes are not negative, so truncating division rounds down.
      stack.back() = size_node(operator_of(step.kind), {stack.back(), b});
    }
  }
  return stack.front();
}

// ---- nodes

void OnnxWriter::add_node(OnnxNode node) {
  const std::string base = node.name + "/" + node.op;
  if (!node_names_.insert(node.name).second) {
    node.name = base;
    for (int suffix = 1; !node_names_.insert(node.name).second; ++suffix)
      node.name = fmt::format("{}_{}", base, suffix);
  }
  graph_->nodes.push_back(std::move(node));
}

Names OnnxWriter::emit(const ProgramOp& op, std::string type, Names inputs,
                       OnnxAttributes attributes, size_t results) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  const std::string module = module_of(op);
  const std::string source = source_of(op);
  const std::string name = module.empty() ? source : module + "/" + source;
  OnnxNode made{type, name, std::move(inputs), {}, std::move(attributes), {}};
  std::ranges::transform(type, type.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (size_t i = 0; i < results; ++i) made.outputs.push_back(fresh_name(op.name + "_" + type));
  made.metadata = {{"octet.module", module}, {"octet.op", target_of(op)}};
  const Names outputs = made.outputs;
  add_node(std::move(made));
  return outputs;
}

void OnnxWriter::refuse(const ProgramOp& op, const std::string& why) {
  has_refusals_ = true;
  refusals_.push_back({target_of(op), source_of(op), why});
}

bool OnnxWriter::need(const ProgramOp& op, int64_t opset, const std::string& what) {
  if (model_.opset >= opset) return true;
  wanted_opset_ = std::max(wanted_opset_, opset);
  refusals_.push_back({target_of(op), source_of(op),
                       fmt::format("with {}, which opset {} lacks, want --opset {} or later", what,
                                   model_.opset, opset)});
  return false;
}

void OnnxWriter::add_op(const ProgramOp& op) {
  const OnnxRow* row = find_onnx_row(op.kind);
  const size_t before = refusals_.size();
  if (row == nullptr) {
    refuse(op, "");
  } else {
    OnnxSteps steps(*this, op);
    row->write(steps);
  }
  for (int index : op.outputs) {
    std::string& name = scope_->names[static_cast<size_t>(index)];
    if (!name.empty()) continue;
    const bool is_read = !scope_->users[static_cast<size_t>(index)].empty() ||
                         scope_->is_result[static_cast<size_t>(index)];
    if (refusals_.size() == before && is_read) refuse(op, "whose other results are used");
    name = scope_->program.tensor(index).name;
  }
}

void OnnxWriter::add_ops(const Program& program) {
  for (const ProgramOp& op : program.ops) add_op(op);
}

// ---- bodies

std::shared_ptr<OnnxGraph> OnnxWriter::body(const std::function<void(OnnxGraph&)>& fill) {
  const auto made = std::make_shared<OnnxGraph>();
  OnnxGraph* outer = std::exchange(graph_, made.get());
  fill(*made);
  graph_ = outer;
  return made;
}

Names OnnxWriter::write_body(const Program& program, const Names& inputs) {
  OnnxScope scope(program, scope_);
  for (size_t k = 0; k < inputs.size(); ++k)
    if (program.inputs[k] >= 0) scope.names[static_cast<size_t>(program.inputs[k])] = inputs[k];
  scope_ = &scope;
  add_ops(program);
  Names results;
  for (int index : program.outputs) results.push_back(name_of(index));
  scope_ = scope.outer;
  return results;
}

void OnnxWriter::add_output(OnnxGraph& graph, const ProgramTensor& tensor,
                            const std::string& value) {
  const std::string name = fresh_name(tensor.name + "_out");
  add_node({"Identity", name, {value}, {name}, {}, {}});
  graph.outputs.push_back(typed_value(name, tensor));
}

}  // namespace octet
