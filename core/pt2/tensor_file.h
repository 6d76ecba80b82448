// Reads and writes inputs, data sets and outputs as torch.save files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace octet {

class Graph;

// X.pt: torch.save of one tuple or list of tensors, ints, floats, bools, strings and None (a single
// tensor counts as a tuple of one). Strides are preserved. Throws Error("inputs", ...) when the
// file is missing, damaged, or contains anything else; ints beyond 32 bits (whose encoding
// LibTorch's unpickler does not read), nested tuples and dicts are refused. Also reads X.npy and
// X.npz (numpy_file.h), whose arrays may have the names of `inputs`.
std::vector<c10::IValue> read_inputs(const std::filesystem::path& path,
                                     const std::vector<std::string>& inputs = {});

// The inputs that a program was exported with, which torch.export.save stores in the .pt2: one for
// each input that Interpreter::run takes. nullopt if the file has none, or has objects of Python.
std::optional<std::vector<c10::IValue>> read_example_inputs(const Graph& graph);

// Batches of a file, or that the caller has or makes when they are read.
class HeldBatches {
 public:
  virtual ~HeldBatches() = default;
  virtual size_t size() const = 0;  // at least 1
  virtual std::vector<c10::IValue> at(size_t index) const = 0;
};

// Lets a BatchReader find the batches by a name in place of a path; null ends that.
void hold_batches(const std::string& name, std::shared_ptr<const HeldBatches> batches);
bool are_held(const std::string& name);

// The batches of a DATA.pt (see BatchReader), or those held by this name. Throws as BatchReader
// does.
std::shared_ptr<const HeldBatches> open_batches(const std::filesystem::path& path);

// DATA.pt: torch.save of a list of such tuples, one per batch. The tensors view the mapped file
// (copy-on-write), so a batch's pages are loaded when it is used and the system may drop them
// again: resident memory does not grow with the file.
class BatchReader {
 public:
  // path: or the name of held batches. Throws Error("inputs", ...) as read_inputs does, and when
  // the list is empty.
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

// Y.pt: a tuple of the values as torch.save writes it, readable by torch.load(weights_only=True).
// Tensors are written contiguous. Written to a temporary file and renamed. Throws Error("outputs",
// ...) when it cannot be written.
void write_outputs(const std::filesystem::path& path, const std::vector<c10::IValue>& values);
// A tuple of such tuples, one per step.
void write_steps(const std::filesystem::path& path,
                 const std::vector<std::vector<c10::IValue>>& steps);

}  // namespace octet
