// Defines a flow: the set of options that decide how a program is annotated and prepared. Also has
// the steps that use it: read, prepare and calibrate. `octet quantize`, `calibrate`, `qat` and
// `tune` share them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/error.h"
#include "core/base/report.h"
#include "tools/cli/common/options.h"
#include "tools/cli/common/sample_data.h"

namespace octet {

class Progress;

struct QuantizeFlow {
  std::string model = {};
  std::string quantizer = {};
  std::string config = {};
  std::string settings = {};  // JSON that overrides --config; may be empty
  std::vector<std::string> libraries = {};
  std::string mode = "static";
  std::string fold_bn = "auto";
  Compat compat = Compat::kNone;
  std::string training_mode = "error";
  std::string recorded = {};
  bool per_tensor = false;
  bool is_training = false;    // fake-quants instead of observers, for `octet qat`
  bool learns_ranges = false;  // fake-quants whose scales can be trained
  std::optional<int64_t> weight_bits = {};
  std::optional<int64_t> activation_bits = {};
  std::optional<int64_t> group_size = {};
  bool reduce_range = false;

  bool is_compat() const { return compat == Compat::kTorchao; }
};

// The options for the model and the quantizer, including --training-mode unless flow.is_training.
Options options_of(QuantizeFlow& flow);

// Converts the options of a training run to one line of JSON, for its checkpoint, and back. The
// line has the contents of --config, but not the model and the libraries. text_of_flow() throws
// Error("quantizer", config, ...) if the file cannot be read; flow_of_text() throws nlohmann's
// exceptions for invalid text.
std::string text_of_flow(QuantizeFlow flow);
QuantizeFlow flow_of_text(const std::string& text);

// Thrown if the settings leave all ops in float.
class NothingToQuantize : public Error {
 public:
  using Error::Error;
};

// Loads the libraries, and reads and verifies the model.
Graph read_model(const QuantizeFlow& flow);
// Throws Error("quantizer", ...) for errors in its name, file or options.
std::unique_ptr<Quantizer> quantizer_of(const QuantizeFlow& flow);
// Annotates and prepares the graph. Throws NothingToQuantize if the quantizer finds nothing; under
// --compat it warns and continues, as torchao does.
ObservedGraph prepare_model(Graph graph, const QuantizeFlow& flow, Report& report);

// The part of the data that one of several processes calibrates with. The batches are divided, in
// order, into `count` parts of nearly equal length; this is part `index`.
struct DataPart {
  size_t index = 0;
  size_t count = 1;
  std::function<void()> before_batch = {};  // may throw, which ends calibration
  // the processes that calibrate with the other parts; then `index` and `count` are theirs, and all
  // end with the observers of the whole data. null: a single process
  Peers* peers = nullptr;
};

// Streams the batches through the observers, as the stage kCalibrateStage
// (annotate/accuracy/accuracy_passes.h) of the progress. `recorded`: the file with the outputs of
// recorded opaque parts, or "". Returns the number of batches, which is 0 if there are fewer
// batches than parts and none is left for this one. Throws Error also if the files have different
// numbers of batches.
size_t calibrate_from_file(ObservedGraph& observed, const SampleData& data,
                           const std::string& recorded, Progress& progress, DataPart part = {});

}  // namespace octet
