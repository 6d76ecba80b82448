// The C interface of Session: converts exceptions to strings, and tensors to addresses.
#include "backends/runtime/octet.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/registry.h"
#include "backends/runtime/c_calls.h"
#include "backends/runtime/dtype_numbers.h"
#include "backends/runtime/load_plugin.h"
#include "backends/runtime/session.h"
#include "core/base/cpus.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "lowering/program/artifact.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

constexpr int kMostThreads = 1024;
constexpr size_t kLongestLine = 4000;

// Has a fixed size, larger than any Error, so that storing an error allocates nothing: memory may
// have run out.
thread_local char last_error[8192];

void note_error(const char* text) {
  size_t length = ::strnlen(text, sizeof(last_error) - 1);
  while (length > 0 && (text[length] & 0xc0) == 0x80) --length;  // do not split a character
  std::memcpy(last_error, text, length);
  last_error[length] = '\0';
}

// Replaces the command's way to load a backend by that of C, in place.
void name_remedy() {
  constexpr std::string_view kOwn = "octet_load_plugin";
  static_assert(kOwn.size() <= kBackendRemedy.size());
  char* const at = std::strstr(last_error, kBackendRemedy.data());
  if (at == nullptr) return;
  std::memcpy(at, kOwn.data(), kOwn.size());
  const char* const rest = at + kBackendRemedy.size();
  std::memmove(at + kOwn.size(), rest, std::strlen(rest) + 1);
}

}  // namespace

octet_status note_exception() {
  try {
    throw;
  } catch (const InternalError& error) {
    note_error(error.what());
    return OCTET_INTERNAL_ERROR;
  } catch (const std::bad_alloc&) {
    const char* const why =
        "memory: there is not enough; use a smaller model or a machine with more";
    note_error(why);
  } catch (const Error& error) {
    note_error(error.what());
    name_remedy();
  } catch (const std::exception& error) {  // from the standard library
    note_error(short_line(error.what(), kLongestLine).c_str());
  }
  return OCTET_FAILED;
}

void forget_error() { note_error(""); }

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Error("octet", name, "is null, want an address");
}

namespace {

void note_shapes(octet_model& model) {
  const Program& program = model.session.program();
  model.shapes.resize(program.tensors.size());
  for (const std::vector<int>* indices : {&program.inputs, &program.outputs})
    for (int index : *indices)
      if (index >= 0)
        model.shapes[static_cast<size_t>(index)] = shape_range(program, program.tensor(index));
}

// Adds the warnings for the current sizes.
void note_warnings(const octet_model& model) {
  for (std::string& line : model.session.warnings())
    if (std::find(model.warnings.begin(), model.warnings.end(), line) == model.warnings.end())
      model.warnings.push_back(std::move(line));
}

octet_model* with_facts(Session session) {
  std::unique_ptr<octet_model> model(new octet_model{std::move(session)});
  note_shapes(*model);
  return model.release();
}

// 0 and null mean the default.
template <typename Number, typename Given>
void set_option(Number& option, Given given) {
  if (given != 0) option = static_cast<Number>(given);
}
void set_option(std::filesystem::path& option, const char* given) {
  if (given != nullptr) option = given;
}

template <typename Load>
octet_model* load(const octet_options* given, const Load& load_file) {
  octet_model* model = nullptr;
  guarded([&] {
    octet_options options = known_part(given, "octet_options");
    if (options.threads < OCTET_DEFAULT_THREADS || options.threads > kMostThreads)
      throw Error("octet", "octet_options",
                  fmt::format("threads is {}, want 0 to {}, or OCTET_DEFAULT_THREADS",
                              options.threads, kMostThreads));
    const LoadOptions load_options{.verifies_checksum = options.skip_checksum == 0};
    if (options.threads == OCTET_DEFAULT_THREADS) options.threads = default_threads();
    SessionOptions session_options;
    visit_options(
        [](const char*, const char*, auto& to, const auto& from) { set_option(to, from); },
        session_options, options);
    model = with_facts(Session(load_file(load_options), session_options));
  });
  return model;
}

void fill_info(const octet_model& model, const std::vector<int>& indices, size_t position,
               octet_tensor_info* info) {
  require(info, "info");
  const size_t size = known_part(info, "octet_tensor_info").size;
  if (position >= indices.size())
    throw Error("octet", "index",
                fmt::format("got {}, want less than {}", position, indices.size()));
  octet_tensor_info whole{};
  whole.size = size;
  whole.name = "";
  if (const int index = indices[position]; index >= 0) {
    const ProgramTensor& tensor = model.session.bound_program().tensor(index);
    const ShapeRange& shapes = model.shapes[static_cast<size_t>(index)];
    whole.name = model.session.program().tensor(index).name.c_str();
    whole.dtype = number_of(tensor.dtype);
    whole.rank = static_cast<int>(tensor.shape.size());
    whole.shape = shapes.shape.data();
    whole.min_shape = shapes.min.data();
    whole.max_shape = shapes.max.data();
    whole.bound_shape = tensor.shape.data();
    whole.bytes = static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype);
    if (tensor.qparams && tensor.qparams->is_per_tensor()) {
      whole.scale = tensor.qparams->scale[0];
      whole.zero_point = tensor.qparams->zero_point[0];
    }
  }
  std::memcpy(info, &whole, std::min(size, sizeof(whole)));
}

}  // namespace
}  // namespace octet

int octet_abi_version(void) { return OCTET_ABI_VERSION; }

const char* octet_version(void) { return OCTET_VERSION; }

const char* octet_backends(void) {
  static std::mutex mutex;
  static std::set<std::string> told;  // their addresses stay valid
  const std::lock_guard<std::mutex> lock(mutex);
  return told.insert(fmt::format("{}", fmt::join(octet::backend_names(), " "))).first->c_str();
}

octet_status octet_load_plugin(const char* path) {
  return octet::guarded([path] {
    octet::require(path, "path");
    octet::load_plugin(path);
  });
}

octet_model* octet_load(const char* path, const octet_options* options) {
  return octet::load(options, [path](const octet::LoadOptions& load_options) {
    octet::require(path, "path");
    return octet::load_program(path, load_options);
  });
}

octet_model* octet_load_memory(const void* bytes, size_t size, const octet_options* options) {
  return octet::load(options, [bytes, size](const octet::LoadOptions& load_options) {
    octet::require(bytes, "bytes");
    return octet::load_program(std::span(static_cast<const std::byte*>(bytes), size), load_options);
  });
}

void octet_free(octet_model* model) { delete model; }

octet_model* octet_duplicate(const octet_model* model) {
  octet_model* copy = nullptr;
  octet::guarded([&] {
    octet::require(model, "model");
    copy = octet::with_facts(model->session.duplicate());
  });
  return copy;
}

const char* octet_warning(const octet_model* model, size_t index) {
  if (model == nullptr) return nullptr;
  octet::guarded([&] { octet::note_warnings(*model); });
  return index >= model->warnings.size() ? nullptr : model->warnings[index].c_str();
}

size_t octet_input_count(const octet_model* model) {
  return model == nullptr ? 0 : model->session.program().inputs.size();
}

size_t octet_output_count(const octet_model* model) {
  return model == nullptr ? 0 : model->session.program().outputs.size();
}

octet_status octet_input(const octet_model* model, size_t index, octet_tensor_info* info) {
  return octet::guarded([&] {
    octet::require(model, "model");
    octet::fill_info(*model, model->session.program().inputs, index, info);
  });
}

octet_status octet_output(const octet_model* model, size_t index, octet_tensor_info* info) {
  return octet::guarded([&] {
    octet::require(model, "model");
    octet::fill_info(*model, model->session.program().outputs, index, info);
  });
}

size_t octet_arena_bytes(const octet_model* model) {
  return model == nullptr ? 0 : model->session.arena_bytes();
}

octet_status octet_bind(octet_model* model, const int64_t* const* shapes) {
  return octet::guarded([&] {
    octet::require(model, "model");
    const std::vector<int>& inputs = model->session.program().inputs;
    if (!inputs.empty()) octet::require(shapes, "shapes");
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] >= 0 && shapes[i] == nullptr) octet::require(nullptr, "a shape");
    model->session.bind({shapes, inputs.size()});
  });
}

octet_status octet_run(octet_model* model, const void* const* inputs, void* const* outputs) {
  return octet::guarded([&] {
    octet::require(model, "model");
    const octet::Program& program = model->session.program();
    if (!program.inputs.empty()) octet::require(inputs, "inputs");
    if (!program.outputs.empty()) octet::require(outputs, "outputs");
    model->session.run({inputs, program.inputs.size()}, {outputs, program.outputs.size()});
  });
}

octet_status octet_output_shape(const octet_model* model, size_t index, int64_t* shape) {
  return octet::guarded([&] {
    octet::require(model, "model");
    const size_t count = model->session.program().outputs.size();
    if (index >= count)
      throw octet::Error("octet", "index", fmt::format("got {}, want less than {}", index, count));
    const std::vector<int64_t> sizes = model->session.output_shape(index);
    if (!sizes.empty()) octet::require(shape, "shape");
    std::copy(sizes.begin(), sizes.end(), shape);
  });
}

octet_status octet_reset_states(octet_model* model) {
  return octet::guarded([&] {
    octet::require(model, "model");
    model->session.reset_states();
  });
}

octet_status octet_copy_states(octet_model* to, const octet_model* from) {
  return octet::guarded([&] {
    octet::require(to, "to");
    octet::require(from, "from");
    to->session.copy_states(from->session);
  });
}

octet_status octet_truncate_states(octet_model* model, int64_t count) {
  return octet::guarded([&] {
    octet::require(model, "model");
    model->session.truncate_states(count);
  });
}

const char* octet_last_error(void) { return octet::last_error; }
