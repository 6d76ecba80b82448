// Records calls with a fallback for a dispatch key that nothing else uses
// (TESTING_ONLY_GenericMode): it sees each call that a thread makes while the key is enabled.
#include "core/interpreter/composite_trace.h"

#include <exception>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "core/base/shape.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/ivalue_convert.h"
#include "core/ops/callable_ops.h"
#include "core/ops/op_lookup.h"

namespace octet {
namespace {

constexpr c10::DispatchKey kTraceKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKey kCompositeKeys[] = {
    c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::CompositeExplicitAutograd,
    c10::DispatchKey::CompositeExplicitAutogradNonFunctional};

// Stops a trace.
struct NotComposed : std::exception {};

struct Tracer {
  const std::function<bool(const std::string&)>& is_known;
  std::vector<TracedCall> calls = {};
};
thread_local Tracer* current = nullptr;

std::string target_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const size_t colons = name.name.find("::");
  std::string base = name.name.substr(colons + 2);
  if (op.hasTag(at::Tag::inplace_view) && base.ends_with('_')) base.pop_back();
  return name.name.substr(0, colons) + "." + base + "." +
         (name.overload_name.empty() ? "default" : name.overload_name);
}

std::optional<c10::DispatchKey> composite_key_of(const c10::OperatorHandle& op) {
  for (const c10::DispatchKey key : kCompositeKeys)
    if (op.hasKernelForDispatchKey(key)) return key;
  return std::nullopt;
}

TensorMeta meta_of(const at::Tensor& tensor) {
  TensorMeta meta = make_meta(from_scalar_type(tensor.scalar_type()),
                              {tensor.sizes().begin(), tensor.sizes().end()});
  for (size_t d = 0; d < meta.strides.size(); ++d)
    meta.strides[d].value = tensor.stride(static_cast<int64_t>(d));
  return meta;
}

// Lists are flattened.
std::vector<TensorMeta> metas_of(const torch::jit::Stack& results) {
  std::vector<TensorMeta> metas;
  for (const c10::IValue& result : results) {
    if (result.isTensor()) metas.push_back(meta_of(result.toTensor()));
    if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) metas.push_back(meta_of(tensor));
  }
  return metas;
}

at::Tensor moved(const at::Tensor& tensor, c10::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  const at::Tensor twin =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
  return device.is_meta() ? twin : twin.zero_();
}

c10::IValue moved(const c10::IValue& value, c10::Device device) {
  if (value.isDevice()) return device;
  if (value.isTensor()) return moved(value.toTensor(), device);
  if (!value.isTensorList() && !value.isOptionalTensorList()) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& item : value.toListRef()) list.push_back(moved(item, device));
  return list;
}

// An op without a kernel for "meta" runs on zeros, only for the shapes and dtypes of its results.
void run_on_zeros(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const torch::jit::Stack given = stack;
  for (c10::IValue& value : stack) value = moved(value, at::kCPU);
  op.callBoxed(stack);
  const c10::FunctionSchema& schema = op.schema();
  for (size_t i = 0; i < stack.size(); ++i) {
    stack[i] = moved(stack[i], at::kMeta);
    const c10::AliasInfo* alias = schema.returns()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    for (size_t k = 0; k < given.size(); ++k)  // written in place: the same tensor
      if (const c10::AliasInfo* own = schema.arguments()[k].alias_info();
          own != nullptr && *own == *alias)
        stack[i] = given[k];
  }
}

void run_known(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard off(kTraceKey);
  const torch::jit::Stack given = stack;
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    stack = given;
    run_on_zeros(op, stack);
  }
}

void trace_call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::string target = target_of(op);
  if (!current->is_known(target)) {
    const std::optional<c10::DispatchKey> key = composite_key_of(op);
    if (!key) throw NotComposed();
    return op.callBoxedForDispatchKey(*key, *stack);
  }
  const auto first = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
  TracedCall call{std::move(target), &op.schema(), {first, stack->end()}, {}, {}};
  stack->erase(first, stack->end());
  call.results = call.arguments;
  run_known(op, call.results);
  call.metas = metas_of(call.results);
  stack->insert(stack->end(), call.results.begin(), call.results.end());
  current->calls.push_back(std::move(call));
}

void register_trace_key() {
  static torch::Library* const library = [] {
    auto* own = new torch::Library(torch::Library::IMPL, "_", kTraceKey, __FILE__, __LINE__);
    own->fallback(torch::CppFunction::makeFromBoxedFunction<&trace_call>());
    return own;
  }();
  static_cast<void>(library);
}

at::Tensor without_data(const TensorMeta& meta) {
  std::vector<int64_t> strides;
  for (const Dim& stride : meta.strides) strides.push_back(stride.value);
  if (strides.size() != meta.sizes.size()) strides = contiguous_strides(meta.shape());
  return at::empty_strided(meta.shape(), strides,
                           at::TensorOptions(to_scalar_type(meta.dtype)).device(at::kMeta));
}

// The arguments of a call, with a value in `frame` for each that the node reads. Nothing when one
// is missing.
std::optional<torch::jit::Stack> arguments_of(const Node& node, const c10::FunctionSchema& schema,
                                              const Frame& frame) {
  torch::jit::Stack stack;
  for (const c10::Argument& argument : schema.arguments()) {
    const Argument* given = node.find_argument(argument.name());
    if (given == nullptr && !argument.default_value()) return std::nullopt;
    stack.push_back(given == nullptr ? *argument.default_value()
                                     : coerce(resolve(*given, frame), argument, subject_of(node)));
  }
  return stack;
}

}  // namespace

std::optional<CompositeTrace> trace_composite(
    const Node& node, const std::vector<Value*>& inputs,
    const std::function<bool(const std::string& target)>& is_known) {
  const std::optional<c10::OperatorHandle> op = find_operator(node.target());
  if (!op || refusal_of(*op) || !composite_key_of(*op)) return std::nullopt;
  register_trace_key();
  CompositeTrace trace;
  Frame frame;
  for (Value* value : inputs) {
    trace.inputs.emplace_back(without_data(*value->meta));
    frame[value] = trace.inputs.back();
  }
  std::optional<torch::jit::Stack> stack;
  Tracer tracer{is_known};
  try {
    stack = arguments_of(node, op->schema(), frame);
    if (!stack) return std::nullopt;
    const at::AutoDispatchBelowADInplaceOrView no_gradients;
    const c10::impl::IncludeDispatchKeyGuard on(kTraceKey);
    current = &tracer;
    trace_call(*op, &*stack);
    current = nullptr;
  } catch (const std::exception&) {
    current = nullptr;
    return std::nullopt;
  }
  trace.calls = std::move(tracer.calls);
  trace.results = std::move(*stack);
  return trace;
}

std::optional<std::vector<TensorMeta>> find_result_metas(const Node& node) {
  const std::optional<c10::OperatorHandle> op = find_operator(node.target());
  if (!op || refusal_of(*op) || !op->hasComputedKernelForDispatchKey(c10::DispatchKey::Meta))
    return std::nullopt;
  Frame frame;
  for (const Value* value : node.inputs()) {
    if (value->kind() != ValueKind::kTensor || !value->meta || !value->meta->is_static())
      return std::nullopt;
    frame[value] = without_data(*value->meta);
  }
  try {
    std::optional<torch::jit::Stack> stack = arguments_of(node, op->schema(), frame);
    if (!stack) return std::nullopt;
    const at::AutoDispatchBelowADInplaceOrView no_gradients;
    op->callBoxed(*stack);
    return metas_of(*stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace octet
