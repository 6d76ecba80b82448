// Implements octet.Model, a lowered program that Python calls. Needs no LibTorch.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>

#include "backends/runtime/session.h"
#include "lowering/program/program.h"

namespace octet::python {

// The contents of an .octet file.
struct LoweredFile {
  Program program;
  std::string call_spec;  // how the exported module is called; "": by a flat list of inputs
};

// A program and its session. Calls from several threads take turns.
class Model {
 public:
  // options.threads may be 0 for default_threads().
  Model(LoweredFile file, SessionOptions options);
  // Loads from the bytes of a file, which are copied.
  Model(std::string_view bytes, SessionOptions options);
  ~Model();

  // REQUIRED before each of the calls below, with the GIL. In a forked process this makes a new
  // session with one thread, because the threads of the parent's pools do not exist there.
  void enter_process();

  // The call_spec of the file, and as a CallSpec of octet_runtime or None, which needs the GIL and
  // throws Error if it is damaged.
  const std::string& call_spec_text() const { return call_spec_text_; }
  nanobind::object call_spec();

  // The program as it was loaded.
  const Program& program() const { return program_; }
  const SessionOptions& options() const { return options_; }

  // The files that it was made from; save() refuses to overwrite them.
  std::vector<std::string> sources;

  // The functions of Session, one call at a time. They do not need the GIL.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  void reset_states();
  void copy_states(Model& from);
  void truncate_states(int64_t count);
  std::unique_ptr<Model> duplicate();
  std::vector<std::string> warnings();
  std::vector<KernelReport> time_kernels(const std::vector<Tensor>& inputs, int runs);

 private:
  struct Live {
    Session session;
    std::mutex mutex;
  };
  Model(const Model& other, Session session);
  Model(const Tensor& bytes, SessionOptions options);
  template <typename Action>
  auto with_session(const Action& action);
  void leave_to_parent();

  Tensor bytes_;  // memory of the constants if loaded from bytes
  Program program_;
  std::string call_spec_text_;
  SessionOptions options_;
  pid_t process_;
  std::unique_ptr<Live> live_;
  bool was_forked_ = false;
  nanobind::object call_spec_;  // null: not read yet
};

// Reads session options from keyword arguments; None counts as absent. Raises TypeError for unknown
// names and wrong types; throws Error(stage, name, ...) for values out of range.
SessionOptions session_options_of(const nanobind::dict& given, const char* stage);
// The inverse of session_options_of.
nanobind::dict dict_of(const SessionOptions& options);
// The parameters in a signature: "loop_limit: int = 0".
std::vector<std::string> session_arguments();

// Translates each Error that leaves the module to an `error`, a class whose constructor takes
// stage, subject and message. backend_remedy: the call that loads a missing backend, which replaces
// kBackendRemedy in messages.
void translate_errors(nanobind::handle error, const char* backend_remedy);

// Adds Model and TensorInfo to the module.
void bind_model(nanobind::module_& module);

}  // namespace octet::python
