#include "tools/onnx/exporter.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/ops/memory.h"
#include "tools/onnx/sizes.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

// "aten.relu_.default" -> "aten.relu"
std::string row_name(const std::string& target) {
  const size_t first = target.find('.');
  const size_t second = first == std::string::npos ? first : target.find('.', first + 1);
  std::string name = target.substr(0, second);
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  return name;
}

const OnnxRow* find_row(const Node& node) {
  static const std::unordered_map<std::string, const OnnxRow*> rows = [] {
    std::unordered_map<std::string, const OnnxRow*> all;
    for (const std::span<const OnnxRow> table :
         {function_onnx_rows(), arithmetic_onnx_rows(), shape_onnx_rows(), part_onnx_rows(),
          indexing_onnx_rows(), filled_onnx_rows(), product_onnx_rows(), attention_onnx_rows(),
          window_onnx_rows(), resize_onnx_rows(), norm_onnx_rows(), reduction_onnx_rows(),
          quantization_onnx_rows(), dynamic_onnx_rows(), size_onnx_rows()})
      for (const OnnxRow& row : table) all.emplace(row.op, &row);
    return all;
  }();
  const auto row = rows.find(row_name(node.target()));
  return row == rows.end() ? nullptr : row->second;
}

bool gives_tensors(const Node& node) {
  const std::vector<Value*> results = node.outputs();
  return results.empty() || std::any_of(results.begin(), results.end(), [](const Value* value) {
           return value->kind() == ValueKind::kTensor;
         });
}

std::string module_of(const Node& node) {
  const std::vector<ModuleFrame> stack = module_stack(node);
  return stack.empty() ? "" : stack.back().path;
}

std::string node_name(const Node& node) {
  const std::string module = module_of(node);
  return module.empty() ? node.name() : module + "/" + node.name();
}

OnnxValue border(const Value& value) {
  if (!value.meta)
    throw Error("onnx", "%" + value.name(),
                "has no recorded shape; export the program with torch.export");
  OnnxValue result{value.name(), onnx_type_of(value.meta->dtype, "%" + value.name()), {}};
  for (const Dim& dim : value.meta->sizes)
    result.dims.push_back(dim.is_symbolic() ? OnnxDim{0, size_text(dim)} : OnnxDim{dim.value, ""});
  return result;
}

template <typename T>
Tensor one(double value, DType dtype) {
  const T number = static_cast<T>(value);
  return Tensor::from<T>(dtype, {}, std::span<const T>(&number, 1));
}

}  // namespace

// ---- names

std::string OnnxExporter::fresh_name(const std::string& base) {
  std::string name = base;
  for (int suffix = 1; !names_.insert(name).second; ++suffix)
    name = fmt::format("{}_{}", base, suffix);
  return name;
}

std::string OnnxExporter::name_of(Value* value) {
  if (const auto known = values_.find(value); known != values_.end()) return known->second;
  if (value->kind() == ValueKind::kSymInt) return values_[value] = size_tensor(*this, *value);
  if (value->kind() != ValueKind::kTensor)
    throw Error("onnx", "%" + value->name(),
                "is no tensor and no size, which are all that this export writes; compute it in "
                "tensors, or export the program with fixed sizes");
  const Tensor* constant = graph_.find_constant(value);
  if (constant == nullptr) {  // of a refused node
    OCTET_ASSERT(!refusals_.empty(), "%" + value->name() + " is read before it is converted");
    return value->name();
  }
  const GraphInput* input = graph_.find_input(value);
  return values_[value] =
             add_initializer(input->fqn.empty() ? value->name() : input->fqn, *constant);
}

void OnnxExporter::give(const Value* value, const std::string& name) {
  std::string own = name;
  if (!model_.nodes.empty() && !given_.contains(name)) {
    std::vector<std::string>& results = model_.nodes.back().outputs;
    const auto result = std::find(results.begin(), results.end(), name);
    if (result != results.end()) own = *result = value->name();
  }
  given_.insert(own);
  values_[value] = own;
}

// ---- constants

std::string OnnxExporter::add_initializer(const std::string& name, OnnxType type,
                                          std::vector<int64_t> shape, Tensor data) {
  model_.initializers.push_back({fresh_name(name), type, std::move(shape), data.contiguous()});
  return model_.initializers.back().name;
}

std::string OnnxExporter::add_initializer(const std::string& name, Tensor data) {
  const OnnxType type = onnx_type_of(data.dtype(), name);
  std::vector<int64_t> shape = data.shape();
  return add_initializer(name, type, std::move(shape), std::move(data));
}

std::string OnnxExporter::number(double value, DType dtype) {
  const std::string key = fmt::format("{} {:a}", octet::name_of(dtype), value);
  std::string& name = numbers_[key];
  if (!name.empty()) return name;
  if (dtype == DType::kBool) return name = add_initializer("number", one<bool>(value, dtype));
  if (dtype == DType::kFloat64) return name = add_initializer("number", one<double>(value, dtype));
  if (dtype == DType::kInt64) return name = add_initializer("number", one<int64_t>(value, dtype));
  if (dtype == DType::kInt32) return name = add_initializer("number", one<int32_t>(value, dtype));
  if (dtype == DType::kInt8) return name = add_initializer("number", one<int8_t>(value, dtype));
  if (dtype == DType::kUInt8) return name = add_initializer("number", one<uint8_t>(value, dtype));
  if (dtype == DType::kInt16) return name = add_initializer("number", one<int16_t>(value, dtype));
  if (dtype == DType::kUInt16) return name = add_initializer("number", one<uint16_t>(value, dtype));
  name = add_initializer("number", one<float>(value, DType::kFloat32));
  if (dtype == DType::kFloat32) return name;
  const std::string result = fresh_name("number");
  model_.nodes.push_back({"Cast",
                          fresh_name("number_cast"),
                          {name},
                          {result},
                          {{"to", static_cast<int64_t>(onnx_type_of(dtype, "a number"))}},
                          {}});
  return name = result;
}

std::string OnnxExporter::ints(const std::vector<int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty())
    name = add_initializer(
        "ints",
        Tensor::from<int64_t>(DType::kInt64, {static_cast<int64_t>(values.size())}, values));
  return name;
}

// ---- nodes

const OnnxNode& OnnxExporter::emit(const Node& node, std::string op,
                                   std::vector<std::string> inputs, OnnxAttributes attributes,
                                   size_t results) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  OnnxNode made{op, node_name(node), std::move(inputs), {}, std::move(attributes), {}};
  if (!node_names_.insert(made.name).second) {
    const std::string base = made.name + "/" + op;
    made.name = base;
    for (int suffix = 1; !node_names_.insert(made.name).second; ++suffix)
      made.name = fmt::format("{}_{}", base, suffix);
  }
  std::string lower = op;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (size_t i = 0; i < results; ++i)
    made.outputs.push_back(fresh_name(node.name() + "_" + lower));
  made.metadata = {{"octet.module", module_of(node)}, {"octet.op", node.target()}};
  model_.nodes.push_back(std::move(made));
  return model_.nodes.back();
}

void OnnxExporter::refuse(const Node& node, const std::string& why) {
  has_refusals_ = true;
  refusals_.push_back({&node, why});
}

bool OnnxExporter::need(const Node& node, int64_t opset, const std::string& what) {
  if (model_.opset >= opset) return true;
  wanted_opset_ = std::max(wanted_opset_, opset);
  refusals_.push_back({&node, fmt::format("with {}, which opset {} lacks, want --opset {} or later",
                                          what, model_.opset, opset)});
  return false;
}

void OnnxExporter::stand_in(const Node& node) {
  for (const Value* value : node.outputs()) values_.emplace(value, value->name());
}

bool OnnxExporter::is_seen_otherwise(const Node& node, const Value& written) {
  const std::unordered_set<const Value*> roots = memory_roots({&written});
  const auto is_later = [&](const Value& value) {
    return value.is_output() ||
           std::any_of(value.users().begin(), value.users().end(), [&](const Node* user) {
             return user != &node && graph_.is_before(node, *user);
           });
  };
  const std::string before = values_.at(&written);
  std::vector<const Value*> others;
  for (const auto& [value, name] : values_)
    if (value != &written && value->producer() != &node && is_later(*value))
      others.push_back(value);
  for (const Value* other : others) {
    const std::unordered_set<const Value*> theirs = memory_roots({other});
    if (std::none_of(theirs.begin(), theirs.end(),
                     [&](const Value* root) { return roots.contains(root); }))
      continue;
    if (values_[other] != before) return true;
    values_[other] = values_.at(node.outputs().front());
  }
  return false;
}

void OnnxExporter::write_back(const Node& node) {
  for (const Value* written : written_values(node)) {
    for (const Value* root : memory_roots({written}))
      if (graph_.find_constant(root) != nullptr)
        return refuse(node, "which changes a constant or a buffer, and ONNX keeps no state");
    if (node.outputs().empty() || !values_.contains(written) || is_seen_otherwise(node, *written)) {
      refuse(node, "which writes into a tensor that is seen by other names too");
      return;
    }
    values_[written] = values_.at(node.outputs().front());
  }
}

void OnnxExporter::add_node(const Node& node) {
  if (!gives_tensors(node)) return;  // sizes are made where they are read
  const OnnxRow* row = find_row(node);
  if (row == nullptr) {
    refuse(node, "");
    return stand_in(node);
  }
  const size_t before = refusals_.size();
  OnnxSteps steps(*this, node);
  row->convert(steps);
  for (const Value* value : node.outputs())
    if (refusals_.size() == before && value->kind() == ValueKind::kTensor && !value->is_unused() &&
        !values_.contains(value))
      refuse(node, "whose other results are used");
  if (refusals_.size() > before) return stand_in(node);
  write_back(node);
}

// ---- the whole

void OnnxExporter::add_inputs() {
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind != InputKind::kUserInput || input.value == nullptr) continue;
    if (input.value->kind() != ValueKind::kTensor)
      throw Error("onnx", "%" + input.value->name(),
                  "is an input that is no tensor; export the program with tensors alone");
    model_.inputs.push_back(border(*input.value));
    names_.insert(input.value->name());
    values_[input.value] = input.value->name();
    given_.insert(input.value->name());
  }
  for (const Node* node : graph_.nodes())
    for (const Value* value : node->outputs()) names_.insert(value->name());
}

void OnnxExporter::add_outputs() {
  std::unordered_set<std::string> taken;
  for (const OnnxValue& input : model_.inputs) taken.insert(input.name);
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.kind != OutputKind::kUserOutput)
      throw Error("onnx", output.target,
                  "is written to by the program, and ONNX keeps no state; export a program that "
                  "takes it as an input and returns it");
    if (output.value.is_none()) continue;
    Value* value = output.value.value_or_null();
    if (value == nullptr || value->kind() != ValueKind::kTensor)
      throw Error("onnx", fmt::format("output {}", model_.outputs.size()),
                  "is no tensor; export a program that returns tensors alone");
    OnnxValue made = border(*value);
    const std::string name = name_of(value);
    const bool is_own = name == value->name() && !taken.contains(name);
    if (!is_own) {
      made.name = taken.contains(value->name()) ? fresh_name(value->name()) : value->name();
      model_.nodes.push_back({"Identity", made.name, {name}, {made.name}, {}, {}});
    }
    taken.insert(made.name);
    model_.outputs.push_back(std::move(made));
  }
}

namespace {

// One line for the refused calls of an op: "aten.foo.default (3, %foo and others)".
struct RefusedOp {
  std::string target, why, first;
  size_t count = 0;
};

std::string refusal_text(const RefusedOp& op) {
  const std::string why = op.why.empty() ? "" : " " + op.why;
  return op.count == 1
             ? fmt::format("{} (%{}){}", op.target, op.first, why)
             : fmt::format("{} ({} of them, the first %{}){}", op.target, op.count, op.first, why);
}

}  // namespace

OnnxModel OnnxExporter::run() {
  add_inputs();
  for (const Node* node : graph_.nodes()) add_node(*node);
  if (refusals_.empty()) {
    add_outputs();
    return std::move(model_);
  }
  std::vector<RefusedOp> ops;
  for (const Refusal& refusal : refusals_) {
    const auto known = std::find_if(ops.begin(), ops.end(), [&](const RefusedOp& op) {
      return op.target == refusal.node->target() && op.why == refusal.why;
    });
    if (known == ops.end())
      ops.push_back({refusal.node->target(), refusal.why, refusal.node->name(), 1});
    else
      ++known->count;
  }
  std::vector<std::string> texts;
  for (const RefusedOp& op : ops) texts.push_back(refusal_text(op));
  throw Error("onnx", graph_.source.empty() ? "the program" : graph_.source,
              fmt::format("{} of {} calls have no form in ONNX: {}; express them otherwise in the "
                          "model",
                          refusals_.size(), graph_.node_count(), fmt::join(texts, "; ")));
}

}  // namespace octet
