// Turns a Backend and a BackendSupport into the table of octet_plugin.h. No exception leaves the
// functions of the table.
#include "backends/plugin/plugin.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backends/runtime/dtype_numbers.h"
#include "backends/runtime/octet_plugin.h"
#include "core/base/error.h"
#include "lowering/program/program.h"

// A compiled segment with the program that it may refer to.
struct octet_plugin_segment {
  octet::Program program;
  std::unique_ptr<octet::CompiledSegment> compiled;
  std::vector<octet::Tensor> inputs, outputs;  // views of memory that each run provides
  // What the last call of kernel() or warning() points to.
  std::vector<octet::KernelReport> kernels;
  std::vector<octet::Warning> warnings;
  std::vector<const char*> names;
  octet_plugin_kernel kernel;
  octet_plugin_warning warning;
};

namespace octet {
namespace {

// ---- the programs that a plug-in gets, as a Program

Tensor tensor_of(const octet_plugin_tensor& view) {
  const std::optional<DType> dtype = find_dtype(view.dtype);
  if (!dtype)
    throw Error("plugin", view.name,
                fmt::format("has the unknown dtype {}; build the plug-in with the Octet that "
                            "loads it",
                            static_cast<int>(view.dtype)));
  std::vector<int64_t> shape(view.shape, view.shape + view.rank);
  if (view.data == nullptr) return Tensor::zeros(*dtype, std::move(shape));  // without elements
  auto storage = std::make_shared<Storage>();
  storage->data = static_cast<std::byte*>(const_cast<void*>(view.data));
  storage->size = view.bytes;
  std::vector<int64_t> strides = contiguous_strides(shape);
  return Tensor(std::move(storage), *dtype, std::move(shape), std::move(strides), 0);
}

ProgramTensor program_tensor_of(const octet_plugin_tensor& view) {
  ProgramTensor tensor;
  tensor.name = view.name;
  const std::optional<DType> dtype = find_dtype(view.dtype);
  if (!dtype) tensor_of(view);  // throws
  tensor.dtype = *dtype;
  tensor.shape.assign(view.shape, view.shape + view.rank);
  if (view.qparam_count != 0)
    tensor.qparams = TensorQParams{{view.scales, view.scales + view.qparam_count},
                                   {view.zero_points, view.zero_points + view.qparam_count},
                                   view.axis};
  if (view.is_constant == 0) return tensor;
  tensor.role = ProgramTensor::Role::kConstant;
  if (view.compact_values == nullptr) {
    tensor.data = tensor_of(view);
    return tensor;
  }
  StoredConstant stored{tensor_of(*view.compact_values), {}, {}};
  if (view.compact_scales != nullptr) stored.scale = tensor_of(*view.compact_scales);
  if (view.compact_zero_points != nullptr) stored.zero_point = tensor_of(*view.compact_zero_points);
  tensor.stored = std::move(stored);
  return tensor;
}

Attribute attribute_of(const octet_plugin_attribute& view) {
  switch (view.type) {
    case OCTET_PLUGIN_BOOL: return view.integer != 0;
    case OCTET_PLUGIN_INTEGER: return view.integer;
    case OCTET_PLUGIN_REAL: return view.real;
    case OCTET_PLUGIN_TEXT: return std::string(view.text, view.count);
    case OCTET_PLUGIN_INTEGERS:
      return std::vector<int64_t>(view.integers, view.integers + view.count);
    case OCTET_PLUGIN_REALS: return std::vector<double>(view.reals, view.reals + view.count);
  }
  throw Error("plugin", view.name,
              fmt::format("has the unknown type {}; build the plug-in with the Octet that loads it",
                          static_cast<int>(view.type)));
}

ProgramOp op_of(const octet_plugin_op& view) {
  ProgramOp op;
  op.kind = view.kind;
  op.name = view.name;
  op.inputs.assign(view.inputs, view.inputs + view.input_count);
  op.outputs.assign(view.outputs, view.outputs + view.output_count);
  for (size_t i = 0; i < view.attribute_count; ++i)
    op.attributes.emplace(view.attributes[i].name, attribute_of(view.attributes[i]));
  op.sources = {op.name};
  op.macs = view.macs;
  return op;
}

void set_roles(Program& program) {
  using Role = ProgramTensor::Role;
  for (int index : program.outputs) program.tensor(index).role = Role::kOutput;
  for (int index : program.inputs) program.tensor(index).role = Role::kInput;
}

// A program with one segment of `backend` that has all ops. Constants are views of the host's
// memory. Throws Error for a dtype or a type of attribute that this Octet does not know.
Program program_of(const octet_plugin_program& view, const std::string& backend) {
  Program program;
  program.backend = backend;
  for (size_t i = 0; i < view.tensor_count; ++i)
    program.tensors.push_back(program_tensor_of(*view.tensors[i]));
  for (size_t i = 0; i < view.op_count; ++i) program.ops.push_back(op_of(*view.ops[i]));
  program.inputs.assign(view.inputs, view.inputs + view.input_count);
  program.outputs.assign(view.outputs, view.outputs + view.output_count);
  set_roles(program);
  Segment& segment = program.segments.emplace_back();
  segment.backend = backend;
  segment.ops.resize(program.ops.size());
  std::iota(segment.ops.begin(), segment.ops.end(), 0);
  segment.inputs = program.inputs;
  segment.outputs = program.outputs;
  return program;
}

// Why the op cannot be read as this Octet reads ops: its kind or an attribute is unknown. Empty if
// nothing is.
std::string find_unknown(const ProgramOp& op) {
  if (find_contract(op.kind) == nullptr)
    return fmt::format("the plug-in's Octet does not know ops of the kind {}", op.kind);
  std::string fault = find_attribute_fault(op);
  if (fault.empty()) fault = find_contract_fault(op);
  return fault.empty() ? "" : fmt::format("the plug-in's Octet does not know this op: {}", fault);
}

// ---- the table

// The library's only backend, and what its table points to.
struct Halves {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<BackendSupport> support;
  std::string name;
  std::map<std::string, std::string> versions;
  std::vector<Tolerance> tolerances;
  TransferCost cost;
  std::vector<std::string> kinds;
  std::vector<octet_plugin_version> version_list;
  std::vector<octet_plugin_tolerance> tolerance_list;
  std::vector<const char*> kind_list;
  octet_plugin table{};
};

// Set by the first call of plugin_table that works, and never freed: segments may be destroyed when
// the process ends.
Halves* halves = nullptr;

void write_message(const char* text, char* message, size_t capacity) {
  if (capacity == 0) return;
  size_t length = ::strnlen(text, capacity - 1);
  while (length > 0 && text[length] != '\0' && (text[length] & 0xc0) == 0x80) --length;
  std::memcpy(message, text, length);
  message[length] = '\0';
}

// The result of `action`, or OCTET_PLUGIN_FAILED with the text of its exception.
template <typename Action>
octet_plugin_status guarded(char* message, size_t capacity, const Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    write_message("there is not enough memory", message, capacity);
  } catch (const std::exception& error) {
    write_message(error.what(), message, capacity);
  } catch (...) {
    write_message("it threw something that is not a std::exception; throw an octet::Error", message,
                  capacity);
  }
  return OCTET_PLUGIN_FAILED;
}

octet_plugin_status accepts(const octet_plugin_program* view, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    const Program program = program_of(*view, halves->name);
    const ProgramOp& op = program.ops.at(0);
    std::string reason = find_unknown(op);
    if (reason.empty()) {
      const Verdict verdict = halves->support->accepts(program, op);
      if (verdict) return OCTET_PLUGIN_OK;
      reason = verdict.reason();
    }
    write_message(reason.c_str(), message, capacity);
    return OCTET_PLUGIN_REFUSED;
  });
}

// A view of memory that each run provides.
Tensor unbound(const ProgramTensor& tensor) {
  auto storage = std::make_shared<Storage>();
  storage->size = tensor.nbytes();
  return Tensor(std::move(storage), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape),
                0);
}

octet_plugin_status compile(const octet_plugin_program* view, int threads,
                            octet_plugin_segment** segment, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    auto made = std::make_unique<octet_plugin_segment>();
    made->program = program_of(*view, halves->name);
    const Program& program = made->program;
    for (const ProgramOp& op : program.ops)
      if (const std::string unknown = find_unknown(op); !unknown.empty())
        throw Error(
            "plugin", op.name,
            fmt::format("cannot be compiled: {}; build the plug-in with a newer Octet", unknown));
    for (int index : program.inputs) made->inputs.push_back(unbound(program.tensor(index)));
    for (int index : program.outputs) made->outputs.push_back(unbound(program.tensor(index)));
    made->compiled = halves->backend->compile(program, program.segments[0], threads);
    *segment = made->compiled == nullptr ? nullptr : made.release();
    return OCTET_PLUGIN_OK;
  });
}

octet_plugin_status run(octet_plugin_segment* segment, const void* const* inputs,
                        void* const* outputs, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    const auto bind = [](Tensor& tensor, const void* address) {
      tensor.storage()->data = static_cast<std::byte*>(const_cast<void*>(address));
    };
    for (size_t i = 0; i < segment->inputs.size(); ++i) bind(segment->inputs[i], inputs[i]);
    for (size_t i = 0; i < segment->outputs.size(); ++i) bind(segment->outputs[i], outputs[i]);
    segment->compiled->run(segment->inputs, segment->outputs);
    return OCTET_PLUGIN_OK;
  });
}

void destroy(octet_plugin_segment* segment) { delete segment; }

const char* const* list_names(octet_plugin_segment& segment,
                              const std::vector<std::string>& names) {
  segment.names.clear();
  for (const std::string& name : names) segment.names.push_back(name.c_str());
  return segment.names.data();
}

// Reports are for people: a failure ends the list.
const octet_plugin_kernel* kernel(octet_plugin_segment* segment, size_t index) {
  try {
    if (index == 0) segment->kernels = segment->compiled->kernels();
    if (index >= segment->kernels.size()) return nullptr;
    const KernelReport& report = segment->kernels[index];
    segment->kernel = {report.ops.size(),     list_names(*segment, report.ops),
                       report.what.c_str(),   report.kernel.c_str(),
                       report.layout.c_str(), report.post_ops.c_str(),
                       report.note.c_str(),   report.seconds};
    return &segment->kernel;
  } catch (...) {
    return nullptr;
  }
}

const octet_plugin_warning* warning(octet_plugin_segment* segment, size_t index) {
  try {
    if (index == 0) segment->warnings = segment->compiled->warnings();
    if (index >= segment->warnings.size()) return nullptr;
    const Warning& each = segment->warnings[index];
    segment->warning = {each.cause.c_str(), each.ops.size(), list_names(*segment, each.ops)};
    return &segment->warning;
  } catch (...) {
    return nullptr;
  }
}

void time_kernels(octet_plugin_segment* segment, int on) {
  try {
    segment->compiled->time_kernels(on != 0);
  } catch (...) {  // there are no times then
  }
}

int output_shape(octet_plugin_segment* segment, size_t output, int64_t* sizes, int rank) {
  try {
    const std::vector<int64_t> shape = segment->compiled->output_shape(output);
    if (shape.size() != static_cast<size_t>(rank)) return 0;
    std::copy(shape.begin(), shape.end(), sizes);
    return rank == 0 ? 0 : 1;
  } catch (...) {  // the sizes in the program hold all elements
    return 0;
  }
}

void fill_table(Halves& made, const char* version) {
  for (const auto& [library, number] : made.versions)
    made.version_list.push_back({library.c_str(), number.c_str()});
  for (const Tolerance& each : made.tolerances)
    made.tolerance_list.push_back(
        {each.cells.c_str(), each.steps, each.relative, each.reason.c_str()});
  for (const std::string& kind : made.kinds) made.kind_list.push_back(kind.c_str());
  octet_plugin& table = made.table;
  table.size = sizeof(table);
  table.interface_version = OCTET_PLUGIN_INTERFACE;
  table.name = made.name.c_str();
  table.version = version;
  table.accepts = accepts;
  table.compile = compile;
  table.run = run;
  table.destroy = destroy;
  table.reads_compact = 1;
  table.version_count = made.version_list.size();
  table.versions = made.version_list.data();
  table.tolerance_count = made.tolerance_list.size();
  table.tolerances = made.tolerance_list.data();
  table.kind_count = made.kind_list.size();
  table.kinds = made.kind_list.data();
  table.kernel = kernel;
  table.warning = warning;
  table.time_kernels = time_kernels;
  table.macs_per_segment = made.cost.macs_per_segment;
  table.macs_per_byte = made.cost.macs_per_byte;
  table.output_shape = output_shape;
}

std::unique_ptr<Halves> make_halves(const PluginMakers& makers, const char* version) {
  auto made = std::make_unique<Halves>();
  made->backend = makers.make_backend();
  made->support = makers.make_support();
  made->name = made->backend->name();
  if (made->support->name() != made->name)
    throw Error("plugin", made->name,
                fmt::format("the name of its support is \"{}\", want that of its backend",
                            made->support->name()));
  made->versions = made->support->versions();
  made->tolerances = made->support->tolerances();
  made->cost = made->support->transfer_cost();
  for (std::string_view kind : made->support->kinds()) made->kinds.emplace_back(kind);
  fill_table(*made, version);
  return made;
}

}  // namespace

const octet_plugin* plugin_table(const PluginMakers& makers, const char* version,
                                 uint32_t host_interface, char* message, size_t capacity) {
  static std::mutex mutex;
  const octet_plugin* table = nullptr;
  guarded(message, capacity, [&] {
    if (host_interface < OCTET_PLUGIN_INTERFACE)
      throw Error("plugin", "interface",
                  fmt::format("got version {}, want {}; load it with a newer Octet", host_interface,
                              OCTET_PLUGIN_INTERFACE));
    const std::lock_guard<std::mutex> lock(mutex);
    if (halves == nullptr) halves = make_halves(makers, version).release();
    table = &halves->table;
    return OCTET_PLUGIN_OK;
  });
  return table;
}

}  // namespace octet
