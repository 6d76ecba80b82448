// Selects the data for calibration, evaluation, comparison and training: which batches of which
// file. Python's batches are held by a name in place of a path (core/pt2/tensor_file.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "core/graph/graph.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/common/options.h"

namespace octet {

struct SampleData {
  std::string file = {};                            // "": no data
  std::shared_ptr<const HeldBatches> batches = {};  // all of the file
  size_t first = 0, end = 0;                        // its batches [first, end)
  std::string labels = {};       // a file with the class of each sample of `file`, or ""
  std::string description = {};  // "the last 4 of 32 calibration batches, held out"

  bool is_there() const { return !file.empty(); }
  size_t size() const { return end - first; }
};

// All batches of a file, or the first `max_batches`. The file is a DATA.pt, or an .npy or .npz
// (core/pt2/numpy_file.h) with an array for each input of `program`, and further ones for targets:
// either of samples, [samples, ...], of which a batch takes as many as the program was exported
// with, or of batches, [batches, ...], with a dimension more than the input. Throws Error("inputs",
// file, ...) when the file cannot be read or does not fit, for arrays without a program (null), and
// for a limit of 0.
SampleData sample_data(const std::string& file, const Graph* program,
                       std::optional<size_t> max_batches = {});

// The last batches of a stream of `all` batches; `name`: by which they are held.
SampleData kept_batches(const std::string& name, size_t all);

class SampleReader {
 public:
  explicit SampleReader(const SampleData& data) : data_(data) {}
  size_t size() const { return data_.size(); }
  // index: in [0, size()).
  std::vector<c10::IValue> at(size_t index) const { return data_.batches->at(data_.first + index); }

 private:
  SampleData data_;
};

// Every `step`-th batch, from batch `start`.
BatchSource source_of(const SampleData& data, size_t start = 0, size_t step = 1);

// The options about data of the command line and of Python.
struct DataOptions {
  std::string calibration, evaluate, labels;    // files; "": none
  std::optional<size_t> hold_out, max_batches;  // for calibration data
};

// --calibration and --max-batches, --evaluate and --labels.
Options calibration_options(DataOptions& options, bool is_required);
Options evaluation_options(DataOptions& options);
Option max_batches_option(std::optional<size_t>& max_batches, const std::string& of);

struct SplitData {
  SampleData all;  // the calibration file
  SampleData calibration, evaluation;

  size_t held_out() const { return all.size() - calibration.size(); }
};

// Splits the data for a program into batches to calibrate with and batches to compare outputs on.
// The latter are those of --evaluate, or the last calibration batches. Calibration skips these if
// --hold-out or `holds_out` says so; otherwise the last `most` calibration batches are used for
// both. Throws Error("quantize", ...) if no batch remains for calibration.
SplitData split(const DataOptions& options, const Graph& program, bool holds_out, size_t most);

}  // namespace octet
