// Runs single ops of a lowered program, each as a separate program.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "backends/runtime/session.h"
#include "lowering/program/program.h"

namespace octet {

// The backend of each op, in the order of Program::ops.
std::vector<std::string> backends_of_ops(const Program& program);

// A program with this op only. Its inputs are inputs or constants, its outputs are outputs.
Program single_op(const Program& program, size_t index, const std::string& backend);

// A program specialized for the sizes of a batch.
class SizedProgram {
 public:
  // The program must outlive this.
  explicit SizedProgram(const Program& program) : program_(program), at_(program) {}
  // Specializes the program for the sizes of the batch; returns whether they changed. Throws
  // Error("compare", ...) for sizes that the program does not accept.
  bool bind(const std::vector<c10::IValue>& batch);
  const Program& at() const { return at_; }  // without symbols once a batch is bound

 private:
  const Program& program_;
  Program at_;
  SymbolValues values_ = {};
};

// Receives a tensor of a program and its name.
using TensorSink = std::function<void(const std::string& name, const at::Tensor& tensor)>;

// Runs a program op by op, each op on the results of those before.
class OpRuns {
 public:
  // `program` must outlive this. Throws Error("compare", ...) if it has states or control flow.
  explicit OpRuns(const Program& program);
  // Passes the inputs and the results of each op to the sink.
  void run(const std::vector<c10::IValue>& batch, const TensorSink& sink);

 private:
  void compile();

  const Program& program_;
  SizedProgram sized_;
  std::vector<std::unique_ptr<Session>> sessions_;  // null: not compiled yet
  std::unordered_map<std::string, size_t> last_use_;
};

}  // namespace octet
