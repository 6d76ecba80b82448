// Binds Model to Python, and translates Octet's errors to Python exceptions.
#include <algorithm>
#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "lowering/program/artifact.h"
#include "lowering/program/symbols.h"
#include "tools/python/runtime/arrays.h"
#include "tools/python/runtime/model.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// One input or output.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  ShapeRange shape;
  std::optional<TensorQParams> qparams;
};

nb::tuple tuple_of(const std::vector<int64_t>& sizes) {
  nb::list list;
  for (const int64_t size : sizes)
    if (size < 0)
      list.append(nb::none());
    else
      list.append(size);
  return nb::tuple(list);
}

std::string to_text(const TensorInfo& info) {
  return fmt::format("{}: {}[{}]", info.name, name_of(info.dtype), octet::to_text(info.shape));
}

std::optional<TensorInfo> info_of(const Program& program, int index) {
  if (index < 0) return std::nullopt;
  const ProgramTensor& tensor = program.tensor(index);
  return TensorInfo{tensor.name, tensor.dtype, shape_range(program, tensor), tensor.qparams};
}

std::vector<std::optional<TensorInfo>> infos_of(const Program& program,
                                                const std::vector<int>& indices) {
  std::vector<std::optional<TensorInfo>> infos;
  for (const int index : indices) infos.push_back(info_of(program, index));
  return infos;
}

std::string list_text(const std::vector<std::optional<TensorInfo>>& infos) {
  std::vector<std::string> texts;
  for (const std::optional<TensorInfo>& info : infos) texts.push_back(info ? to_text(*info) : "-");
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string to_text(const Model& model) {
  const Program& program = model.program();
  return fmt::format("octet.Model({}: ({}) -> ({}), threads={})", program.backend,
                     list_text(infos_of(program, program.inputs)),
                     list_text(infos_of(program, program.outputs)), model.options().threads);
}

std::string subject_of(const Program& program, const char* side, const std::vector<int>& indices,
                       size_t position) {
  const int index = indices[position];
  return index < 0 ? fmt::format("{} {}", side, position)
                   : fmt::format("{} {} ({})", side, position, program.tensor(index).name);
}

// Assigns arguments by position, then by name. Inputs with index -1 may be anything or missing.
std::vector<nb::object> arrange_flat(const Program& program, const nb::args& positional,
                                     const nb::kwargs& named) {
  std::vector<nb::object> given(program.inputs.size());
  if (positional.size() > given.size())
    throw Error("session", "inputs",
                fmt::format("got {}, want {}", positional.size(), given.size()));
  for (size_t i = 0; i < positional.size(); ++i) given[i] = nb::borrow(positional[i]);
  for (const auto& [key, value] : named) {
    const std::string name = nb::cast<std::string>(key);
    const auto has_name = [&](int index) {
      return index >= 0 && program.tensor(index).name == name;
    };
    const auto found = std::find_if(program.inputs.begin(), program.inputs.end(), has_name);
    if (found == program.inputs.end())
      throw Error("session", name,
                  fmt::format("is not an input, want one of ({})",
                              list_text(infos_of(program, program.inputs))));
    nb::object& place = given[static_cast<size_t>(found - program.inputs.begin())];
    if (place.is_valid()) throw Error("session", name, "is given twice; leave one out");
    place = nb::borrow(value);
  }
  return given;
}

// The flattened inputs of a call in the form of the exported module, or of a flat one.
std::vector<nb::object> arrange(Model& model, const nb::args& positional, const nb::kwargs& named) {
  const nb::object spec = model.call_spec();
  const nb::object leaves =
      spec.is_none() ? nb::none() : nb::object(spec.attr("flatten")(positional, named));
  if (leaves.is_none()) return arrange_flat(model.program(), positional, named);
  return nb::cast<std::vector<nb::object>>(leaves);
}

struct Arranged {
  std::vector<Tensor> tensors;
  Framework framework = Framework::kNumpy;
};

Arranged tensors_of(Model& model, const nb::args& positional, const nb::kwargs& named) {
  Arranged arranged;
  const Program& program = model.program();
  const std::vector<nb::object> given = arrange(model, positional, named);
  for (size_t i = 0; i < given.size(); ++i) {
    arranged.tensors.emplace_back();
    if (given[i].is_valid() && framework_of(given[i]) == Framework::kTorch)
      arranged.framework = Framework::kTorch;
    if (program.inputs[i] < 0) continue;
    const std::string subject = subject_of(program, "input", program.inputs, i);
    if (!given[i].is_valid())
      throw Error(
          "session", subject,
          fmt::format("is missing, want {} inputs; give it by position or by name", given.size()));
    arranged.tensors.back() = tensor_of(given[i], subject);
  }
  return arranged;
}

nb::object call(Model& model, const nb::args& positional, const nb::kwargs& named) {
  model.enter_process();
  const Program& program = model.program();
  const Arranged inputs = tensors_of(model, positional, named);
  std::vector<Tensor> outputs;
  {
    const nb::gil_scoped_release release;
    outputs = model.run(inputs.tensors);
  }
  nb::list arrays;
  for (size_t i = 0; i < outputs.size(); ++i)
    arrays.append(
        array_of(outputs[i], inputs.framework, subject_of(program, "output", program.outputs, i)));
  if (const nb::object spec = model.call_spec(); !spec.is_none())
    return spec.attr("unflatten")(arrays);
  if (outputs.size() == 1) return arrays[0];
  return nb::tuple(arrays);
}

nb::list time_kernels(Model& model, const nb::args& positional, int runs, const nb::kwargs& named) {
  model.enter_process();
  const Arranged inputs = tensors_of(model, positional, named);
  std::vector<KernelReport> kernels;
  {
    const nb::gil_scoped_release release;
    kernels = model.time_kernels(inputs.tensors, runs);
  }
  nb::list rows;
  for (const KernelReport& kernel : kernels) {
    nb::dict row;
    row["ops"] = kernel.ops;
    row["what"] = kernel.what;
    row["kernel"] = kernel.kernel;
    row["layout"] = kernel.layout;
    row["post_ops"] = kernel.post_ops;
    row["seconds"] = kernel.seconds;
    row["note"] = kernel.note;
    rows.append(row);
  }
  return rows;
}

nb::bytes bytes_of(const Model& model) {
  std::string bytes;
  {
    const nb::gil_scoped_release release;
    bytes = program_bytes(model.program(), model.call_spec_text());
  }
  return nb::bytes(bytes.data(), bytes.size());
}

using State = std::tuple<nb::bytes, nb::dict>;

constexpr const char* kModelDoc =
    R"(A lowered program, compiled for this machine: call it with its inputs.

Calls from several threads take turns; duplicate() gives each thread its own. Pickling takes the
program and its options along; states are reset. In a forked process (a DataLoader's worker) it
runs with one thread.)";

std::string load_doc() {
  std::string text = R"(The program of an .octet file.

path: what `octet lower` or Model.save wrote; it is mapped, and must not be written into meanwhile.
)";
  const SessionOptions defaults;
  visit_options([&](const char* name, const char* meaning,
                    const auto&) { text += fmt::format("{}: {}.\n", name, meaning); },
                defaults);
  return text + R"(verify: compares all bytes with the checksum in the file.
Raises Error when the file is missing, damaged or of a backend that is not here.)";
}

constexpr const char* kCallDoc = R"(Runs the program once.

inputs: numpy arrays, torch tensors on the CPU or what has DLPack, of the dtypes and shapes in
`inputs`; as the exported module takes them (in dicts, lists or dataclasses, by keyword), or all by
position or by name. They are not copied when their elements lie row by row.
Returns what the module does: torch tensors when an input is one, else numpy arrays. A type that
this process has not imported becomes a dict of its fields, a named tuple a tuple.
Raises Error on a wrong count, dtype or shape; nothing is converted.)";

void bind_tensor_info(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo", "An input or output of a Model.")
      .def_ro("name", &TensorInfo::name, "Its name in the exported program.")
      .def_prop_ro(
          "dtype", [](const TensorInfo& info) { return std::string(name_of(info.dtype)); },
          "\"float32\", \"int8\", ...")
      .def_prop_ro(
          "shape", [](const TensorInfo& info) { return tuple_of(info.shape.shape); },
          nb::sig("def shape(self) -> tuple[int | None, ...]"), "None for a size that is open.")
      .def_prop_ro(
          "min_shape", [](const TensorInfo& info) { return tuple_of(info.shape.min); },
          nb::sig("def min_shape(self) -> tuple[int, ...]"), "The minimum of each size.")
      .def_prop_ro(
          "max_shape", [](const TensorInfo& info) { return tuple_of(info.shape.max); },
          nb::sig("def max_shape(self) -> tuple[int, ...]"), "The maximum of each size.")
      .def_prop_ro(
          "scale",
          [](const TensorInfo& info) {
            return info.qparams && info.qparams->is_per_tensor()
                       ? std::optional(info.qparams->scale.front())
                       : std::nullopt;
          },
          "Of quantized integers: real = scale * (integer - zero_point); None otherwise.")
      .def_prop_ro("zero_point",
                   [](const TensorInfo& info) {
                     return info.qparams && info.qparams->is_per_tensor()
                                ? std::optional(info.qparams->zero_point.front())
                                : std::nullopt;
                   })
      .def("__repr__", [](const TensorInfo& info) { return to_text(info); });
}

// Makes a Model without the GIL, and reads its call_spec.
template <typename Make>
std::unique_ptr<Model> checked(const Make& make) {
  std::unique_ptr<Model> model;
  {
    const nb::gil_scoped_release release;
    model = make();
  }
  model->call_spec();
  return model;
}

State state_of(const Model& model) { return {bytes_of(model), dict_of(model.options())}; }

void bind_calls(nb::class_<Model>& type) {
  type.def("__call__", call, "inputs"_a, "named"_a, kCallDoc,
           nb::sig("def __call__(self, *inputs: typing.Any, **named: typing.Any) -> typing.Any"))
      .def("kernels", time_kernels, "inputs"_a, nb::kw_only(), "runs"_a = 20, "named"_a,
           nb::sig("def kernels(self, *inputs: typing.Any, runs: int = 20, **named: typing.Any) "
                   "-> list[dict[str, typing.Any]]"),
           "Runs the program a few more times and reports for each call of a kernel: ops, what, "
           "kernel, layout, post_ops, seconds (of the fastest run), note (why it is slower than it "
           "could be).")
      .def(
          "reset_states",
          [](Model& model) {
            model.enter_process();
            const nb::gil_scoped_release release;
            model.reset_states();
          },
          "Resets the buffers that the program writes to their initial values.")
      .def(
          "copy_states",
          [](Model& model, Model& other) {
            model.enter_process();
            other.enter_process();
            const nb::gil_scoped_release release;
            model.copy_states(other);
          },
          "other"_a,
          "Takes the buffers of another Model of the same program, such as a language model's "
          "cache: the next call continues what `other` has run so far.")
      .def(
          "truncate_states",
          [](Model& model, int64_t count) {
            model.enter_process();
            const nb::gil_scoped_release release;
            model.truncate_states(count);
          },
          "count"_a,
          "Rolls the cache of a language model back: keeps what is at positions 0 to count - 1, "
          "and resets the rest, as if the model had not been called with later positions. Raises "
          "Error, and changes nothing, if count is negative or exceeds the positions of the cache, "
          "if the model has no cache, or if a buffer has no row for each position (the cache of a "
          "sliding window: keep a copy of that with copy_states).")
      .def(
          "duplicate",
          [](Model& model) {
            model.enter_process();
            const nb::gil_scoped_release release;
            return model.duplicate();
          },
          "A Model of the same program for another thread; weights are shared.");
}

void bind_files(nb::class_<Model>& type) {
  type.def(
          "save",
          [](const Model& model, const std::filesystem::path& path) {
            const nb::gil_scoped_release release;
            check_no_input(path, model.sources, "artifact");
            save_program(model.program(), path, model.call_spec_text());
          },
          "path"_a,
          "Writes an .octet file of what runs, whole or not at all. Raises Error when it cannot.")
      .def("to_bytes", bytes_of, "The bytes of that file.")
      .def_static(
          "from_bytes",
          [](const nb::bytes& bytes, const nb::kwargs& given) {
            const std::string_view view(bytes.c_str(), bytes.size());
            const SessionOptions options = session_options_of(given, "session");
            return checked([&] { return std::make_unique<Model>(view, options); });
          },
          "bytes"_a, "options"_a,
          nb::sig(fmt::format("def from_bytes(bytes: bytes, *, {}) -> Model",
                              fmt::join(session_arguments(), ", "))
                      .c_str()),
          "The program of a file's bytes; limits as those of load. Raises Error when they are "
          "damaged.")
      .def("__getstate__", state_of)
      .def("__setstate__", [](Model& model, const State& state) {
        const auto& [bytes, options] = state;
        new (&model) Model(std::string_view(bytes.c_str(), bytes.size()),
                           session_options_of(options, "session"));
      });
}

// Names in a file may be invalid UTF-8.
nb::str printable(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

// What errors of this module are raised as.
struct Translation {
  nb::handle type;
  const char* backend_remedy;
};

void translate(const std::exception_ptr& thrown, void* given) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const auto& [type, remedy] = *static_cast<const Translation*>(given);
    const nb::object raised = type(printable(error.stage()), printable(error.subject()),
                                   printable(with_remedy(error.message(), remedy)));
    PyErr_SetObject(type.ptr(), raised.ptr());
  }
}

}  // namespace

void translate_errors(nb::handle error, const char* backend_remedy) {
  // Never released: the translator lives as long as the process.
  static Translation translation{error.inc_ref(), backend_remedy};
  nb::register_exception_translator(translate, &translation);
}

void bind_model(nb::module_& module) {
  module.attr("__version__") = OCTET_VERSION;
  bind_tensor_info(module);
  nb::class_<Model> type(module, "Model", kModelDoc);
  bind_calls(type);
  bind_files(type);
  type.def_prop_ro(
          "backend", [](const Model& model) { return model.program().backend; },
          "The backends that the program was lowered for, with commas between them.")
      .def_prop_ro(
          "inputs",
          [](const Model& model) { return infos_of(model.program(), model.program().inputs); },
          "A TensorInfo each; None for what the program does not read.")
      .def_prop_ro(
          "outputs",
          [](const Model& model) { return infos_of(model.program(), model.program().outputs); })
      .def_prop_ro("threads", [](const Model& model) { return model.options().threads; })
      .def_prop_ro(
          "warnings",
          [](Model& model) {
            model.enter_process();
            const nb::gil_scoped_release release;
            return model.warnings();
          },
          "Why the program runs slower on this machine than it could; with open sizes, known after "
          "the first call.")
      .def("__str__", [](const Model& model) { return octet::to_text(model.program()); })
      .def("__repr__", [](const Model& model) { return to_text(model); });
  module.def(
      "load",
      [](const std::filesystem::path& path, bool verify, const nb::kwargs& given) {
        const SessionOptions options = session_options_of(given, "session");
        return checked([&] {
          LoweredFile file;
          file.program =
              load_program(path, {.verifies_checksum = verify, .call_spec = &file.call_spec});
          return std::make_unique<Model>(std::move(file), options);
        });
      },
      "path"_a, nb::kw_only(), "verify"_a = true, "options"_a,
      nb::sig(fmt::format("def load(path: str | os.PathLike, *, {}, verify: bool = True) -> Model",
                          fmt::join(session_arguments(), ", "))
                  .c_str()),
      load_doc().c_str());
}

}  // namespace octet::python
