// octet.Model: a lowered program that Python calls. Free of torch.
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

// A program with a session of it. Calls from several threads take turns.
class Model {
 public:
  // threads of the options: 0 for default_threads().
  Model(Program program, SessionOptions options);
  // From the bytes of a file, which are copied.
  Model(std::string_view bytes, SessionOptions options);
  ~Model();

  // REQUIRED before any of the calls below, with the GIL: in a forked process this makes a new
  // session with one thread, as the threads of the parent's pools are not there.
  void enter_process();

  // As given.
  const Program& program() const { return program_; }
  const SessionOptions& options() const { return options_; }

  // Files that it was made from, which save() does not replace.
  std::vector<std::string> sources;

  // The functions of Session, one at a time. None needs the GIL.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  void reset_states();
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

  Tensor bytes_;  // what constants are views of, when the program came from memory
  Program program_;
  SessionOptions options_;
  pid_t process_;
  std::unique_ptr<Live> live_;
  bool was_forked_ = false;
};

// Session options by name, as keyword arguments give them; None counts as left out. Raises
// TypeError for other names and types, throws Error(stage, name, ...) for values out of range.
SessionOptions session_options_of(const nanobind::dict& given, const char* stage);
// The other way.
nanobind::dict dict_of(const SessionOptions& options);
// Rows of a signature: "loop_limit: int = 0".
std::vector<std::string> session_arguments();

// From now on an Error that leaves the module becomes an `error`, a class whose constructor takes
// stage, subject and message.
void translate_errors(nanobind::handle error);

// Model and TensorInfo.
void bind_model(nanobind::module_& module);

}  // namespace octet::python
