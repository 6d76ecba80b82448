#include "core/interpreter/inputs.h"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/ivalue_convert.h"

namespace octet {
namespace {

using c10::IValue;

// "1..64" for a symbol with this range.
std::string size_text(const Graph& graph, const Dim& dim) {
  if (!dim.is_symbolic()) return std::to_string(dim.value);
  const auto range = graph.range_constraints.find(symbol_name(dim.expr));
  if (range == graph.range_constraints.end()) return "?";
  const auto [min, max] = range->second;
  return fmt::format("{}..{}", min.value_or(0), max ? std::to_string(*max) : "");
}

std::string meta_text(const Graph& graph, const TensorMeta& meta) {
  std::vector<std::string> sizes;
  for (const Dim& dim : meta.sizes) sizes.push_back(size_text(graph, dim));
  return fmt::format("{}[{}]", short_name_of(meta.dtype), fmt::join(sizes, ", "));
}

std::string name_of(size_t index, const GraphInput& input) {
  return input.value == nullptr ? fmt::format("input {}", index)
                                : fmt::format("input {} (%{})", index, input.value->name());
}

std::string wanted_text(const Graph& graph, const GraphInput& input) {
  if (input.kind == InputKind::kConstant || input.value == nullptr)
    return describe(resolve(input.constant, {}));
  switch (input.value->kind()) {
    case ValueKind::kSymInt: return "an int";
    case ValueKind::kSymFloat: return "a float";
    case ValueKind::kSymBool: return "a bool";
    case ValueKind::kNone: return "None";
    case ValueKind::kCustomObj: return "a custom object";
    case ValueKind::kToken: return "a token";
    case ValueKind::kTensor: break;
  }
  return input.value->meta ? meta_text(graph, *input.value->meta) : "a tensor";
}

bool is_same_literal(const IValue& got, const IValue& want) {
  if (want.isNone()) return got.isNone();
  if (want.isBool()) return got.isBool() && got.toBool() == want.toBool();
  if (want.isInt()) return got.isInt() && got.toInt() == want.toInt();
  if (want.isDouble())
    return (got.isDouble() && got.toDouble() == want.toDouble()) ||
           (got.isInt() && static_cast<double>(got.toInt()) == want.toDouble());
  if (want.isString()) return got.isString() && got.toStringRef() == want.toStringRef();
  return false;
}

class InputCheck {
 public:
  InputCheck(const Graph& graph, bool check_shapes) : graph_(graph), check_shapes_(check_shapes) {}

  void check(size_t index, const GraphInput& input, const IValue& got) {
    subject_ = name_of(index, input);
    wanted_ = wanted_text(graph_, input);
    got_ = describe(got);
    if (input.kind == InputKind::kConstant || input.value == nullptr) {
      if (!is_same_literal(got, resolve(input.constant, {})))
        fail("the program was exported for this value only; export it again for another one");
      return;
    }
    switch (input.value->kind()) {
      case ValueKind::kTensor: return check_tensor(*input.value, got);
      case ValueKind::kSymInt:
        if (!got.isInt()) fail("give it the kind of input that it was exported with");
        if (check_shapes_) check_symbol(input.value->symbol, got.toInt(), "it");
        return;
      case ValueKind::kSymFloat:
        if (!got.isDouble() && !got.isInt())
          fail("give it the kind of input that it was exported with");
        return;
      case ValueKind::kSymBool:
        if (!got.isBool()) fail("give it the kind of input that it was exported with");
        return;
      case ValueKind::kNone:
        if (!got.isNone()) fail("give it the kind of input that it was exported with");
        return;
      case ValueKind::kCustomObj:
      case ValueKind::kToken: return;
    }
  }

 private:
  void check_tensor(const Value& value, const IValue& got) {
    if (!got.isTensor() || !got.toTensor().defined())
      fail("give it the kind of input that it was exported with");
    const at::Tensor& tensor = got.toTensor();
    if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided)
      fail("give it a dense tensor on the CPU");
    if (!check_shapes_ || !value.meta) return;
    const TensorMeta& meta = *value.meta;
    if (from_scalar_type(tensor.scalar_type()) != meta.dtype)
      fail("convert the input to that dtype");
    if (tensor.dim() != static_cast<int64_t>(meta.sizes.size()))
      fail("give it an input of that rank");
    for (size_t d = 0; d < meta.sizes.size(); ++d) {
      const int64_t size = tensor.size(static_cast<int64_t>(d));
      const Dim& dim = meta.sizes[d];
      if (!dim.is_symbolic()) {
        if (size != dim.value)
          fail("give it an input of that shape, or export with dynamic shapes");
      } else {
        check_symbol(dim.expr, size, fmt::format("dimension {}", d));
      }
    }
  }

  void check_symbol(const std::string& expr, int64_t size, const std::string& where) {
    const std::string name = symbol_name(expr);
    if (name.empty()) return;  // a derived size: the ops that rely on it check it
    const auto [bound, is_new] = bound_.emplace(name, size);
    if (!is_new && bound->second != size)
      fail(fmt::format("{} is {}, but {} is {}; give sizes that agree", where, size,
                       origin_of_symbol(graph_, name), bound->second));
    const auto range = graph_.range_constraints.find(name);
    if (range == graph_.range_constraints.end()) return;
    const RangeConstraint& limits = range->second;
    if (limits.min && size < *limits.min)
      fail(fmt::format("{} is {}, want at least {}; give a size in the exported range", where, size,
                       *limits.min));
    if (limits.max && size > *limits.max)
      fail(fmt::format("{} is {}, want at most {}; give a size in the exported range", where, size,
                       *limits.max));
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error("run", subject_, fmt::format("got {}, want {}; {}", got_, wanted_, reason));
  }

  const Graph& graph_;
  bool check_shapes_;
  std::map<std::string, int64_t> bound_;
  std::string subject_;
  std::string wanted_;
  std::string got_;
};

at::DataPtr data_of(const std::shared_ptr<Storage>& storage) {
  return at::DataPtr(
      storage->data, new std::shared_ptr<Storage>(storage),
      [](void* context) { delete static_cast<std::shared_ptr<Storage>*>(context); },
      c10::Device(c10::DeviceType::CPU));
}

}  // namespace

std::vector<const GraphInput*> caller_inputs(const Graph& graph) {
  std::vector<const GraphInput*> result;
  for (const GraphInput& input : graph.inputs())
    if (input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant)
      result.push_back(&input);
  return result;
}

bool is_literal(const GraphInput& input) {
  return input.kind == InputKind::kConstant || input.value == nullptr ||
         input.value->kind() == ValueKind::kNone;
}

std::vector<std::pair<size_t, IValue>> literal_inputs(const Graph& graph) {
  const std::vector<const GraphInput*> inputs = caller_inputs(graph);
  std::vector<std::pair<size_t, IValue>> literals;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_literal(*inputs[i])) literals.emplace_back(i, resolve(inputs[i]->constant, {}));
  return literals;
}

std::string symbol_name(const std::string& expr) {
  constexpr std::string_view kHead = "Symbol('";
  if (!expr.starts_with(kHead)) return "";
  const size_t end = expr.find('\'', kHead.size());
  if (end == std::string::npos || expr.find('(', end) != std::string::npos) return "";
  return expr.substr(kHead.size(), end - kHead.size());
}

std::string origin_of_symbol(const Graph& graph, const std::string& name) {
  const std::vector<const GraphInput*> inputs = caller_inputs(graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value* value = inputs[i]->value;
    if (value == nullptr) continue;
    if (value->kind() == ValueKind::kSymInt && symbol_name(value->symbol) == name)
      return name_of(i, *inputs[i]);
    for (size_t d = 0; value->meta && d < value->meta->sizes.size(); ++d)
      if (symbol_name(value->meta->sizes[d].expr) == name)
        return fmt::format("dimension {} of {}", d, name_of(i, *inputs[i]));
  }
  return "";
}

void check_inputs(const Graph& graph, const std::vector<IValue>& inputs, bool check_shapes) {
  const std::vector<const GraphInput*> wanted = caller_inputs(graph);
  if (wanted.size() != inputs.size()) {
    std::vector<std::string> names;
    for (const GraphInput* input : wanted)
      names.push_back((input->value == nullptr ? "" : fmt::format("%{}: ", input->value->name())) +
                      wanted_text(graph, *input));
    throw Error("run", "inputs",
                fmt::format("got {} inputs, want {} ({}); give them flattened, None included",
                            inputs.size(), wanted.size(), fmt::join(names, ", ")));
  }
  InputCheck check(graph, check_shapes);
  for (size_t i = 0; i < inputs.size(); ++i) check.check(i, *wanted[i], inputs[i]);
}

Constants::Constants(const Graph& graph) {
  for (const auto& [fqn, constant] : graph.constants) {
    if (!constant.tensor.defined()) continue;
    const std::shared_ptr<Storage>& storage = constant.tensor.storage();
    auto found = storages_.find(storage.get());
    if (found == storages_.end())
      found = storages_.emplace(storage.get(), to_aten_storage(storage)).first;
    shared_.emplace(found->second.unsafeGetStorageImpl(), storage);
    tensors_.emplace(fqn, to_aten(constant.tensor, found->second));
  }
}

const at::Tensor* Constants::find(const std::string& fqn) const {
  const auto found = tensors_.find(fqn);
  return found == tensors_.end() ? nullptr : &found->second;
}

void Constants::before_write(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto found = shared_.find(storage);
  if (found == shared_.end() || written_.contains(storage)) return;
  const Tensor bytes = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(found->second->size)});
  if (found->second->size > 0) std::memcpy(bytes.raw(), found->second->data, found->second->size);
  storage->set_data_ptr_noswap(data_of(bytes.storage()));
  written_.insert(storage);
}

void Constants::reset() {
  for (c10::StorageImpl* storage : written_)
    storage->set_data_ptr_noswap(data_of(shared_.at(storage)));
  written_.clear();
}

}  // namespace octet
