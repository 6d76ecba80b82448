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

// What the op reads are inputs or constants, what it gives are outputs.
Program single_op(const Program& program, size_t index, const std::string& backend);

// A program at the sizes of a batch.
class SizedProgram {
 public:
  // The program must outlive this.
  explicit SizedProgram(const Program& program) : program_(program), at_(program) {}
  // Whether they are others than those before. Throws Error("compare", ...) for sizes that the
  // program does not take.
  bool bind(const std::vector<c10::IValue>& batch);
  const Program& at() const { return at_; }  // without symbols once a batch is bound

 private:
  const Program& program_;
  Program at_;
  SymbolValues values_ = {};
};

// A program's tensor and the name that it has there.
using TensorSink = std::function<void(const std::string& name, const at::Tensor& tensor)>;

// Runs a program op by op, each on what the ones before gave.
class OpRuns {
 public:
  // Throws Error("compare", ...) for programs with states or control flow: `program` must be one
  // without. It must outlive this.
  explicit OpRuns(const Program& program);
  // The sink gets the inputs and what each op gives.
  void run(const std::vector<c10::IValue>& batch, const TensorSink& sink);

 private:
  void compile();

  const Program& program_;
  SizedProgram sized_;
  std::vector<std::unique_ptr<Session>> sessions_;  // empty: to be made
  std::unordered_map<std::string, size_t> last_use_;
};

}  // namespace octet
