// Inputs, data sets and outputs as torch.save files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include <ATen/core/ivalue.h>

namespace octet {

// X.pt: torch.save of one tuple or list of tensors, ints, floats, bools, strings and None (a lone
// tensor counts as a tuple of one). Strides come back as saved. Throws Error("inputs", ...) when
// the file is missing, damaged, or holds anything else; ints beyond 32 bits are refused (LibTorch's
// unpickler does not read Python's encoding of them), as are nested tuples and dicts.
std::vector<c10::IValue> read_inputs(const std::filesystem::path& path);

// DATA.pt: torch.save of a list of such tuples, one per batch. The tensors view the mapped file
// (each record once, copy-on-write), so the pages of a batch are read when it is used and the
// system may drop them again: the resident set does not grow with the file.
class BatchReader {
 public:
  // Throws Error("inputs", ...) as read_inputs does, and when the list is empty.
  explicit BatchReader(const std::filesystem::path& path);
  ~BatchReader();
  BatchReader(BatchReader&&) noexcept;
  BatchReader& operator=(BatchReader&&) noexcept;

  size_t size() const;              // batches
  bool done() const;                // true after the last batch
  std::vector<c10::IValue> next();  // must not be done()
  std::vector<c10::IValue> at(size_t index) const;
  void rewind();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Y.pt: a tuple of the values as torch.save would write it, read by torch.load(weights_only=True).
// Tensors are written contiguous. Writes beside the file and renames. Throws Error("outputs", ...)
// when it cannot be written.
void write_outputs(const std::filesystem::path& path, const std::vector<c10::IValue>& values);
// The same of a tuple of such tuples, one for each step.
void write_steps(const std::filesystem::path& path,
                 const std::vector<std::vector<c10::IValue>>& steps);

}  // namespace octet
