// A part of a Program in the form that plug-ins read (octet_plugin.h).
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "backends/runtime/octet_plugin.h"
#include "lowering/program/program.h"

namespace octet {

class PluginProgram {
 public:
  // The ops need not be in the program. inputs, outputs: indices of its tensors. All sizes must be
  // fixed. reads_compact: octet_plugin.reads_compact.
  PluginProgram(const Program& program, std::vector<const ProgramOp*> ops,
                std::span<const int> inputs, std::span<const int> outputs, bool reads_compact);
  // The program of one op.
  PluginProgram(const Program& program, const ProgramOp& op, bool reads_compact);
  PluginProgram(const PluginProgram&) = delete;
  PluginProgram& operator=(const PluginProgram&) = delete;

  // Valid as long as this object; constants as long as `program`, too.
  const octet_plugin_program* view() const { return &view_; }

 private:
  int index_of(int tensor);
  const octet_plugin_tensor* add_tensor(const ProgramTensor& tensor);
  const octet_plugin_tensor* add_values(const std::string& name, const Tensor& values);
  void add_op(const ProgramOp& op);
  std::vector<int> indices_of(std::span<const int> tensors);

  const Program& program_;
  const bool reads_compact_;
  octet_plugin_program view_{};
  std::vector<int> indices_;  // in the view, by index in the program; -1: not in the view
  std::vector<const octet_plugin_tensor*> tensor_list_;
  std::vector<const octet_plugin_op*> op_list_;
  std::vector<int> inputs_, outputs_;
  // What the structs of the view point to; a deque moves no element when it grows.
  std::deque<ProgramTensor> kept_tensors_;
  std::deque<ProgramOp> kept_ops_;
  std::deque<Tensor> kept_data_;
  std::deque<octet_plugin_tensor> tensors_;
  std::deque<octet_plugin_op> ops_;
  std::deque<std::vector<octet_plugin_attribute>> attributes_;
};

// The first tensor of the op whose dtype plug-ins do not know; null if there is none.
const ProgramTensor* find_unknown_dtype(const Program& program, const ProgramOp& op);

}  // namespace octet
