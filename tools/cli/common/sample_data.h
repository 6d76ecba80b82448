// Selects the data for calibration, evaluation, comparison and training: which batches of which
// file. Python's batches are held by a name in place of a path (core/pt2/tensor_file.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/common/options.h"

namespace octet {

struct SampleData {
  std::string file = {};         // a DATA.pt; "": there is no data
  size_t first = 0, end = 0;     // its batches [first, end)
  std::string labels = {};       // a file with the class of each sample of `file`, or ""
  std::string description = {};  // "the last 4 of 32 calibration batches, held out"

  bool is_there() const { return !file.empty(); }
  size_t size() const { return end - first; }
};

// All batches of a file, or the first `max_batches`. Throws Error("inputs", file, ...) when the
// file cannot be read, and for a limit of 0.
SampleData sample_data(const std::string& file, std::optional<size_t> max_batches = {});

// The last batches of a stream of `all` batches; `name`: by which they are held.
SampleData kept_batches(const std::string& name, size_t all);

class SampleReader {
 public:
  explicit SampleReader(const SampleData& data) : reader_(data.file), data_(data) {}
  size_t size() const { return data_.size(); }
  // index: in [0, size()).
  std::vector<c10::IValue> at(size_t index) const { return reader_.at(data_.first + index); }

 private:
  BatchReader reader_;
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

// Splits the data into batches to calibrate with and batches to compare outputs on. The latter are
// those of --evaluate, or the last calibration batches. Calibration skips these if --hold-out or
// `holds_out` says so; otherwise the last `most` calibration batches are used for both. Throws
// Error("quantize", ...) if no batch remains for calibration.
SplitData split(const DataOptions& options, bool holds_out, size_t most);

}  // namespace octet
