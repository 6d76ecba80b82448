// Edits a Program and tracks which op makes and which ops read each tensor. An erased op keeps its
// position, with an empty kind, until compact().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

class ProgramEditor {
 public:
  explicit ProgramEditor(Program& program);

  Program& program() { return program_; }
  size_t op_count() const { return program_.ops.size(); }
  ProgramOp& op(size_t i) { return program_.ops[i]; }
  ProgramTensor& tensor(int index) { return program_.tensor(index); }
  bool is_erased(size_t i) const { return program_.ops[i].kind.empty(); }

  // The op that makes the tensor, -1 for inputs and constants.
  int producer(int tensor) const { return producer_[static_cast<size_t>(tensor)]; }
  // The producer if it has that kind, else null. `tensor` may be -1.
  ProgramOp* find_producer(int tensor, OpKind kind);
  // As find_producer, but null if the op has attributes, such as a clamp or alpha.
  ProgramOp* find_bare_producer(int tensor, OpKind kind);
  // The ops that read the tensor, each once.
  const std::vector<int>& users(int tensor) const { return users_[static_cast<size_t>(tensor)]; }
  // Whether the tensor is an output of the program or the next value of a state.
  bool is_output(int tensor) const { return is_output_[static_cast<size_t>(tensor)]; }
  // The only op that reads the tensor; -1 if there are several, or if the tensor is an output.
  int only_user(int tensor) const;
  bool is_constant(int tensor) const {
    return tensor >= 0 && program_.tensor(tensor).is_constant();
  }
  // The value of a float32 constant with one element.
  std::optional<double> find_number(int tensor) const;

  // These keep the indices above valid. insert() moves later ops by one.
  int add_tensor(ProgramTensor tensor);  // makes the name unique
  int add_constant(const std::string& name, Tensor data, std::optional<TensorQParams> qparams = {});
  int add_constant(const std::string& name, StoredConstant stored);
  // Adds the dequantized values of an integer constant with qparams. They are stored as integers if
  // these have at most 16 bits.
  int add_dequantized(const std::string& name, int integer);
  void insert(size_t before, ProgramOp op);
  void erase(size_t i);
  void replace_uses(int from, int to);  // in ops, program outputs and next values of states
  void refresh();                       // call it after editing ops in place

  // Drops erased ops, ops whose results no op reads, and unused tensors; returns the number of ops
  // dropped.
  int compact();

 private:
  Program& program_;
  std::vector<int> producer_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> is_output_;
};

// Calls rewrite(editor, i) for each op that is not erased; returns how many calls changed
// something.
template <typename Rewrite>
int rewrite_ops(Program& program, const Rewrite& rewrite) {
  ProgramEditor editor(program);
  int changes = 0;
  for (size_t i = 0; i < editor.op_count(); ++i)
    if (!editor.is_erased(i) && rewrite(editor, i)) ++changes;
  return changes;
}

}  // namespace octet
