// The walk over the graph; what each op becomes stands in compute.cpp, shape.cpp and
// quantization.cpp.
#include "lowering/import/graph.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/shape.h"
#include "lowering/import/importer.h"
#include "lowering/import/size.h"
#include "lowering/program/custom_kernel.h"

namespace octet {
namespace {

struct OpName {
  std::string base;          // "aten.relu"
  bool is_in_place = false;  // of aten.relu_.default
};

OpName split_target(const std::string& target) {
  if (target.starts_with("higher_order.")) return {target};
  OpName name{target.substr(0, target.rfind('.')), false};
  if (name.base.starts_with("aten.") && name.base.ends_with('_') && !name.base.ends_with("__")) {
    name.base.pop_back();
    name.is_in_place = true;
  }
  return name;
}

const ImportRow* find_row(std::span<const ImportRow> rows, const std::string& op) {
  for (const ImportRow& row : rows)
    if (op == row.op) return &row;
  return nullptr;
}

const ImportRow* find_import_row(const std::string& op) {
  for (const auto& rows :
       {compute_import_rows(),      pointwise_import_rows(),      shape_import_rows(),
        quantization_import_rows(), statistics_import_rows(),     recurrent_import_rows(),
        attention_import_rows(),    function_import_rows(),       indexing_import_rows(),
        rearrange_import_rows(),    window_import_rows(),         composed_import_rows(),
        product_import_rows(),      upsample_import_rows(),       filled_import_rows(),
        control_import_rows(),      float_function_import_rows(), order_import_rows(),
        place_import_rows(),        pool_index_import_rows(),     loss_import_rows(),
        count_import_rows(),        unique_import_rows()})
    if (const ImportRow* row = find_row(rows, op)) return row;
  return nullptr;
}

bool is_number(const Value& value) {
  return value.kind() == ValueKind::kSymInt || value.kind() == ValueKind::kSymFloat ||
         value.kind() == ValueKind::kSymBool;
}

// Not one of PyTorch's own ops.
bool is_custom(const std::string& target) {
  static const char* const kOwn[] = {
      "aten.",    "prims.",    "higher_order.", "_operator.", "quantized_decomposed.",
      "torchao.", "quantized."};
  return std::none_of(std::begin(kOwn), std::end(kOwn),
                      [&](const char* prefix) { return target.starts_with(prefix); });
}

}  // namespace

std::vector<int64_t> static_shape(const Value& value) {
  OCTET_ASSERT(value.meta, "static_shape wants a value with a meta");
  for (const Dim& dim : value.meta->sizes)
    if (dim.is_symbolic())
      throw Error(
          "lower", "%" + value.name(),
          fmt::format("has the symbolic size {}, want numbers here; export with this size fixed",
                      parse_size(dim.expr, value.name()).to_text()));
  return value.meta->shape();
}

std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count) {
  if (values.size() == 1) values.resize(count, values.front());
  return values;
}

int64_t positive_dim(int64_t dim, size_t rank) { return wrap_dim(dim, rank); }

Importer::Importer(const Graph& graph, bool keep_unknown, size_t depth,
                   std::vector<ShapeSymbol> known)
    : graph_(graph), keep_unknown_(keep_unknown), depth_(depth), known_(std::move(known)) {}

void Importer::fail(const Node& node, const std::string& what) const {
  throw Error("lower", fmt::format("{} ({})", node.name(), node.target()), what);
}

void Importer::refuse(const Node& node, const std::string& why, RefusalKind kind) {
  const bool is_known = std::any_of(
      refusals_.begin(), refusals_.end(),
      [&](const Refusal& refusal) { return refusal.node == &node && refusal.why == why; });
  if (!is_known) refusals_.push_back({&node, kind, why});
}

int Importer::add_tensor(ProgramTensor tensor) {
  const std::string base = tensor.name;
  for (int suffix = 1; !names_.insert(tensor.name).second; ++suffix)
    tensor.name = fmt::format("{}_{}", base, suffix);
  program_.tensors.push_back(std::move(tensor));
  return static_cast<int>(program_.tensors.size()) - 1;
}

std::string Importer::unique_op_name(const std::string& base) {
  std::string name = base;
  for (int suffix = 1; !op_names_.insert(name).second; ++suffix)
    name = fmt::format("{}_{}", base, suffix);
  return name;
}

int Importer::add_constant(const std::string& name, Tensor data,
                           std::optional<TensorQParams> qparams) {
  data = data.contiguous();
  return add_tensor(
      {name, data.dtype(), data.shape(), std::move(qparams), ProgramTensor::Role::kConstant, data});
}

int Importer::tensor_of(Value* value) {
  const auto found = tensors_.find(value);
  if (found != tensors_.end()) return found->second;
  if (complex_.contains(value))
    throw Error("lower", "%" + value->name(),
                "is complex, want real tensors here; use its real and imaginary parts "
                "(torch.view_as_real)");
  const Tensor* constant = graph_.find_constant(value);
  if (constant == nullptr)
    throw Error("lower", "%" + value->name(),
                "is not a tensor that is known here (a symbol or a custom object), want a tensor; "
                "export with static shapes");
  return tensors_[value] = add_constant(value->name(), *constant);
}

int Importer::operand(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr || argument->is_none()) return -1;
  if (Value* value = argument->value_or_null())
    return is_number(*value) ? number_operand(node, value) : tensor_of(value);
  if (argument->find<OptionalTensor>() != nullptr) return -1;
  return add_constant(fmt::format("{}_{}", node.name(), name), literal_operand(node, name));
}

ProgramOp& Importer::emit_values(const Node& node, const std::vector<Value*>& values,
                                 const std::string& kind, std::vector<int> inputs,
                                 Attributes attributes) {
  ProgramOp op;
  op.kind = kind;
  op.name = unique_op_name(node.name());
  op.inputs = std::move(inputs);
  for (Value* value : values) {
    if (is_number(value->kind())) {
      op.outputs.push_back(add_intermediate(value->name(), dtype_of_number(value->kind()), {}));
      numbers_[value] = op.outputs.back();
      continue;
    }
    const DType dtype = value->meta ? value->meta->dtype : DType::kFloat32;
    op.outputs.push_back(add_intermediate(value->name(), dtype, sizes_of(*value)));
    tensors_[value] = op.outputs.back();
  }
  op.attributes = std::move(attributes);
  op.sources = {node.name()};
  const std::vector<ModuleFrame> frames = module_stack(node);
  if (!frames.empty()) op.module = frames.back().path;
  program_.ops.push_back(std::move(op));
  return program_.ops.back();
}

ProgramOp& Importer::emit_value(const Node& node, Value* value, const std::string& kind,
                                std::vector<int> inputs, Attributes attributes) {
  return emit_values(node, {value}, kind, std::move(inputs), std::move(attributes));
}

ProgramOp& Importer::emit(const Node& node, const std::string& kind, std::vector<int> inputs,
                          Attributes attributes) {
  return emit_value(node, node.outputs().front(), kind, std::move(inputs), std::move(attributes));
}

int Importer::emit_step(const Node& node, const std::string& kind, std::vector<int> inputs,
                        const Sizes& sizes, DType dtype, Attributes attributes) {
  const int output = add_intermediate(fmt::format("{}_{}", node.name(), kind), dtype, sizes);
  ProgramOp op;
  op.kind = kind;
  op.name = unique_op_name(tensor(output).name);
  op.inputs = std::move(inputs);
  op.outputs = {output};
  op.attributes = std::move(attributes);
  op.sources = {node.name()};
  program_.ops.push_back(std::move(op));
  return output;
}

void Importer::alias(Value* value, int tensor) { tensors_[value] = tensor; }

void Importer::give(const Node& node, Value* value, int tensor) {
  alias(value, tensor);
  if (program_.ops.empty()) return;
  ProgramOp& op = program_.ops.back();
  const bool is_of_node =
      op.outputs == std::vector<int>{tensor} && op.sources == std::vector<std::string>{node.name()};
  if (!is_of_node || !names_.insert(value->name()).second) return;
  names_.erase(this->tensor(tensor).name);
  program_.tensor(tensor).name = value->name();
  if (value == node.outputs().front()) op.name = unique_op_name(node.name());
  const std::vector<ModuleFrame> frames = module_stack(node);
  if (!frames.empty()) op.module = frames.back().path;
}

void Importer::stand_in(const Node& node) {
  for (Value* value : node.outputs()) {
    if (tensors_.contains(value) || value->kind() != ValueKind::kTensor) continue;
    tensors_[value] = add_intermediate(
        value->name(), value->meta ? value->meta->dtype : DType::kFloat32, sizes_of(*value));
  }
}

namespace {

// Computes with sizes alone: what it gives stands in the shapes that use it.
bool gives_symbols(const Node& node) {
  const std::vector<Value*> values = node.outputs();
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [](const Value* value) { return is_number(*value); });
}

}  // namespace

namespace {

bool touches_complex(const Node& node) {
  const auto is_complex_tensor = [](const Value* value) {
    return value->kind() == ValueKind::kTensor && value->meta && is_complex(value->meta->dtype);
  };
  const std::vector<Value*> inputs = node.inputs(), outputs = node.outputs();
  return std::any_of(inputs.begin(), inputs.end(), is_complex_tensor) ||
         std::any_of(outputs.begin(), outputs.end(), is_complex_tensor);
}

bool has_unknown_complex(const Node* node) {
  return touches_complex(*node) &&
         find_row(complex_import_rows(), split_target(node->target()).base) == nullptr;
}

}  // namespace

void Importer::import_node(const Node& node) {
  if (gives_symbols(node)) return import_item(node);
  const OpName name = split_target(node.target());
  const bool is_complex_op = touches_complex(node);
  // a transform from half a spectrum without imaginary part gives reals from reals
  const ImportRow* row = is_complex_op || name.base.starts_with("aten.fft_")
                             ? find_row(complex_import_rows(), name.base)
                             : find_import_row(name.base);
  const size_t refused = refusals_.size(), op_count = program_.ops.size(),
               body_count = program_.bodies.size();
  if (refuse_open_ends(node)) {
    const bool is_unknown = row == nullptr && find_custom_kernel(node.target()) == nullptr;
    if (is_unknown && refusals_.size() == refused && !keep_unknown_)
      refuse(node, is_complex_op ? "of complex numbers" : "");
    return stand_in(node);
  }
  if (row == nullptr && find_custom_kernel(node.target()) != nullptr) {
    import_custom(*this, node);
  } else if (row == nullptr || (is_complex_op && (name.is_in_place || keeps_complex_))) {
    refuse(node, is_complex_op ? "of complex numbers" : "");
  } else {
    row->import(*this, node);
  }
  if (refusals_.size() != refused && keep_unknown_ && !has_new_size(node)) {
    program_.ops.resize(op_count);  // what a row emitted before it refused
    program_.bodies.resize(body_count);
    numbers_.clear();
    for (const Value* value : node.outputs()) complex_.erase(value);
    refusals_.resize(refused);
    if (const std::string why = keep_whole(*this, node); !why.empty()) refuse(node, why);
  }
  if (name.is_in_place && refusals_.size() == refused) write_back(node);
  if (refusals_.size() == refused) return;
  mark_open_ends(node);
  stand_in(node);
}

void Importer::import_outputs() {
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.kind == OutputKind::kToken || output.kind == OutputKind::kBufferMutation ||
        output.kind == OutputKind::kParameterMutation)
      continue;
    if (output.kind != OutputKind::kUserOutput)
      throw Error("lower", output.target,
                  "is an input that the program changes, which a lowered program cannot do; export "
                  "without it, or keep the value in a buffer");
    bool has_value = false;
    for_each_value(output.value, [&](Value* value) {
      program_.outputs.push_back(depth_ > 0 && is_number(value->kind()) ? result_number(value)
                                                                        : tensor_of(value));
      has_value = true;
    });
    if (!has_value)
      throw Error("lower", "outputs",
                  "an output is no tensor (None or a number); return tensors only");
  }
  for (int index : program_.outputs) {
    ProgramTensor& tensor = program_.tensor(index);
    if (tensor.role == ProgramTensor::Role::kIntermediate)
      tensor.role = ProgramTensor::Role::kOutput;
  }
}

void Importer::fail_if_refused() const {
  if (refusals_.empty()) return;
  std::vector<std::string> ops, sizes, helped;
  bool has_custom = false;
  for (const Refusal& refusal : refusals_) {
    const Node& node = *refusal.node;
    const bool is_size = refusal.kind == RefusalKind::kSize;
    (is_size ? sizes : ops)
        .push_back(fmt::format("{} ({}){}", node.name(), node.target(),
                               refusal.why.empty() ? "" : " " + refusal.why));
    if (is_size) continue;
    has_custom = has_custom || is_custom(node.target());
    if (!keep_unknown_ && refusal.kind == RefusalKind::kOp && find_part_missing(node).empty())
      helped.push_back(node.name());
  }
  const auto plural = [](const std::vector<std::string>& list) {
    return list.size() == 1 ? "" : "s";
  };
  std::string what;
  if (!ops.empty())
    what = fmt::format(
        "has no kernel in the reference backend; {} such op{}: {}; replace them before the "
        "export{}{}",
        ops.size(), plural(ops), fmt::join(ops, ", "),
        helped.empty()
            ? ""
            : fmt::format(", or run {} with LibTorch (--fallback torch)",
                          helped.size() == ops.size() ? "them"
                                                      : fmt::format("{}", fmt::join(helped, ", "))),
        has_custom ? ", or load a library that registers kernels for custom ops (--library)" : "");
  if (!sizes.empty())
    what += fmt::format(
        "{}has a size or an index that is known only when the program runs, which no backend and "
        "no fallback takes; {} such op{}: {}; make it fixed before the export, or leave it to the "
        "caller",
        ops.empty() ? "" : "; besides, the program ", sizes.size(), plural(sizes),
        fmt::join(sizes, ", "));
  const auto leads = [&](const Refusal& refusal) {
    return ops.empty() || refusal.kind != RefusalKind::kSize;
  };
  const Node& first = *std::find_if(refusals_.begin(), refusals_.end(), leads)->node;
  throw Error("lower", fmt::format("{} ({})", first.name(), first.target()), what);
}

Program Importer::run() {
  const std::vector<Node*> nodes = graph_.nodes();
  // LibTorch gets complex numbers whole, or none of them
  keeps_complex_ = keep_unknown_ && std::any_of(nodes.begin(), nodes.end(), has_unknown_complex);
  import_inputs();
  import_states();
  note_item_sizes();
  for (const Node* node : nodes) import_node(*node);
  fail_if_refused();
  import_outputs();
  fail_if_refused();  // numbers that outputs alone read
  import_next_states();
  put_sizes_first();
  return split_at_counts(std::move(program_), counted_, depth_);
}

bool is_imported(const std::string& target) {
  return find_import_row(split_target(target).base) != nullptr ||
         find_custom_kernel(target) != nullptr;
}

Program import_graph(const Graph& graph, bool keep_unknown) {
  return Importer(graph, keep_unknown).run();
}

}  // namespace octet
