// The options that decide how a program is annotated and prepared, and the steps that follow them:
// read, prepare and calibrate. Shared by `octet quantize`, `calibrate`, `qat` and `tune`.
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
  std::string settings = {};  // JSON of the same form, on top of --config; may be empty
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
  std::optional<int64_t> group_size = {};
  bool reduce_range = false;

  bool is_compat() const { return compat == Compat::kTorchao; }
};

// The model and the options of the quantizer; with --training-mode unless flow.is_training.
Options options_of(QuantizeFlow& flow);

// The flow of a program that is trained as JSON on one line, for its checkpoint, and back. The
// model and the libraries are not in it, the contents of --config are. text_of_flow() throws
// Error("quantizer", config, ...) for a file that cannot be read, flow_of_text() nlohmann's
// exceptions for other text.
std::string text_of_flow(QuantizeFlow flow);
QuantizeFlow flow_of_text(const std::string& text);

// The settings leave everything float.
class NothingToQuantize : public Error {
 public:
  using Error::Error;
};

// Loads the libraries, reads and verifies.
Graph read_model(const QuantizeFlow& flow);
// Throws Error("quantizer", ...) for what is wrong with its name, its file and its options.
std::unique_ptr<Quantizer> quantizer_of(const QuantizeFlow& flow);
// Annotates and prepares. Throws NothingToQuantize when the quantizer finds nothing; under compat
// it warns and continues, as torchao does.
ObservedGraph prepare_model(Graph graph, const QuantizeFlow& flow, Report& report);

// The part of the data that one of several processes calibrates with: the batches are cut into
// `count` parts, in order and of nearly equal length; this is part `index`.
struct DataPart {
  size_t index = 0;
  size_t count = 1;
  std::function<void()> before_batch = {};  // may throw, which ends calibration
  // the processes that take the other parts: `index` and `count` are theirs then, and all end with
  // the observers of the whole data; null: none
  Peers* peers = nullptr;
};

// Streams the batches through the observers: kCalibrateStage (annotate/accuracy/accuracy_passes.h)
// of the progress. `recorded`: the file with the outputs of recorded opaque parts, or "". Returns
// the number of batches; 0 when there are fewer than parts and none is left for this one. Throws
// Error also when the files have different numbers of batches.
size_t calibrate_from_file(ObservedGraph& observed, const SampleData& data,
                           const std::string& recorded, Progress& progress, DataPart part = {});

}  // namespace octet
