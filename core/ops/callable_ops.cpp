#include "core/ops/callable_ops.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/ops/op_lookup.h"

namespace octet {
namespace {

constexpr std::string_view kComputing[] = {"aten", "prims", "quantized_decomposed"};

// Namespaces of PyTorch itself that torch.export never writes.
// clang-format off
constexpr std::string_view kPyTorchsOwn[] = {
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_nnapi", "_quantized",
    "_test", "aoti_custom_ops", "c10d", "c10d_functional", "cuda", "custom_op_fallback",
    "debug_mode_ops", "debugprims", "dist_inductor", "export", "flash_attn_3", "fsdp", "inductor",
    "inductor_prims", "metal", "metal_prepack", "mkl", "mkldnn", "mkldnn_prepacked", "mtia",
    "nestedtensor", "onednn", "prepacked", "profiler", "quantization", "quantized", "rngprims",
    "rpc", "sparse", "static_runtime", "streams", "symm_mem", "tensorexpr", "torch_attn", "triton",
    "vulkan", "vulkan_prepack", "xnnpack"};
// clang-format on

struct RefusedOp {
  std::string_view name;  // without overload
  const char* why;
};
constexpr const char *kFiles = "it reads and writes files",
                     *kTerminal = "it writes to the terminal",
                     *kState = "it changes the state of the process",
                     *kGradients = "it changes autograd's records",
                     *kMemory = "it replaces the memory of a tensor",
                     *kTest = "it serves PyTorch's own tests",
                     *kUnchecked = "it does not check its arguments";
constexpr RefusedOp kRefused[] = {
    {"aten::from_file", kFiles},
    {"aten::_print", kTerminal},
    {"aten::_cufft_clear_plan_cache", kState},
    {"aten::_cufft_set_plan_cache_max_size", kState},
    {"aten::get_gradients", kState},
    {"aten::_backward", kGradients},
    {"aten::retain_grad", kGradients},
    {"aten::set_data", kMemory},
    {"aten::_propagate_xla_data", kMemory},
    {"aten::_foobar", kTest},
};

struct Allowed {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;  // "aten.from_file", "aten.from_file.out"
};

Allowed& allowed() {
  static Allowed all;
  return all;
}

bool is_allowed(std::string_view base, std::string_view overload) {
  Allowed& all = allowed();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.names.contains(base) || all.names.contains(fmt::format("{}.{}", base, overload));
}

bool is_in(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_of(const c10::TypePtr& type, c10::TypeKind kind) {
  if (type->kind() == kind) return true;
  const auto parts = type->containedTypes();
  return std::ranges::any_of(parts, [&](const c10::TypePtr& part) { return is_of(part, kind); });
}

bool have(const std::vector<c10::Argument>& arguments, c10::TypeKind kind) {
  return std::ranges::any_of(
      arguments, [&](const c10::Argument& argument) { return is_of(argument.type(), kind); });
}

const char* refusal_by_schema(const c10::FunctionSchema& schema) {
  const auto has = [&](c10::TypeKind kind) {
    return have(schema.arguments(), kind) || have(schema.returns(), kind);
  };
  if (has(c10::TypeKind::StorageType)) return kMemory;
  if (has(c10::TypeKind::StreamObjType)) return kState;
  if (has(c10::TypeKind::ClassType)) return "it takes or returns a TorchScript object";
  return nullptr;
}

// Why a custom op is refused, by its schema.
const char* refusal_by_effect(const c10::FunctionSchema& schema) {
  if (schema.returns().empty() && !schema.is_mutable())
    return "it returns nothing and writes to no tensor, so it does more than compute";
  if (have(schema.arguments(), c10::TypeKind::StringType) &&
      !have(schema.arguments(), c10::TypeKind::TensorType))
    return "it makes its result from text alone, which may name a file";
  return nullptr;
}

}  // namespace

std::optional<std::string> refusal_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const std::string full = without_own_namespace(name.name);
  const size_t colons = full.find("::");
  const std::string_view name_space = std::string_view(full).substr(0, colons);
  const std::string base = fmt::format("{}.{}", name_space, full.substr(colons + 2));
  if (is_allowed(base, name.overload_name.empty() ? "default" : name.overload_name))
    return std::nullopt;
  const char* why = refusal_by_schema(op.schema());
  const RefusedOp* refused =
      std::ranges::find_if(kRefused, [&](const RefusedOp& row) { return row.name == full; });
  if (refused != std::end(kRefused)) why = refused->why;
  if (full.starts_with("aten::_test_")) why = kTest;
  if (full.starts_with("aten::_reshape_alias") || full.ends_with("_tensor_unsafe"))
    why = kUnchecked;
  if (is_in(kPyTorchsOwn, name_space)) why = "torch.export never writes ops of its namespace";
  if (why == nullptr && !is_in(kComputing, name_space)) why = refusal_by_effect(op.schema());
  return why == nullptr ? std::nullopt : std::optional<std::string>(why);
}

std::optional<c10::OperatorHandle> find_callable_operator(std::string_view target,
                                                          const std::string& subject) {
  std::optional<c10::OperatorHandle> op = find_operator(target);
  const std::optional<std::string> why = op ? refusal_of(*op) : std::nullopt;
  if (why)
    throw Error("run", subject,
                fmt::format("programs may not call {0}: {1}; leave it out of the model, or allow "
                            "it with --allow-op {0} if you trust the file",
                            target.substr(0, target.rfind('.')), *why));
  return op;
}

void allow_op(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == name.size())
    throw Error("run", std::string(name),
                "cannot be allowed, want the name of an op with its namespace, like "
                "aten.from_file");
  Allowed& all = allowed();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.names.emplace(name);
}

std::vector<std::string> allowed_ops() {
  Allowed& all = allowed();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return {all.names.begin(), all.names.end()};
}

}  // namespace octet
