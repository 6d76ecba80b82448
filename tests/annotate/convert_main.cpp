// Quantizes the oracle's custom-rule cases and writes them, for check_converted.py and
// check_affine.py: octet_convert_rules OUT. Writes OUT/<case>.pt2, and in OUT/<case>.outputs.pt
// the interpreter's outputs for the second batch (or the only one). Leaves out cases where torchao
// failed. Needs OCTET_GOLDEN_DIR.
#include <filesystem>
#include <iostream>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/rewrites.h"
#include "core/pt2/reader.h"
#include "core/pt2/tensor_file.h"
#include "core/pt2/writer.h"
#include "support/golden.h"
#include "support/rule_quantizer.h"

namespace {

using namespace octet;

// numpy has no bfloat16: the files of such models hold float32.
std::vector<std::vector<c10::IValue>> batches_for(const Graph& graph,
                                                  const test::GoldenCase& golden) {
  std::vector<std::vector<c10::IValue>> batches = golden.calibration();
  const std::vector<Value*> inputs = graph.user_inputs();
  for (std::vector<c10::IValue>& batch : batches)
    for (size_t i = 0; i < batch.size() && i < inputs.size(); ++i)
      if (inputs[i]->meta && is_floating_point(inputs[i]->meta->dtype))
        batch[i] = batch[i].toTensor().to(to_scalar_type(inputs[i]->meta->dtype));
  return batches;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    std::filesystem::create_directories(argv[1]);
    for (const test::GoldenCase& golden : test::golden_cases("cus_")) {
      if (golden.peer_failed()) continue;
      test::RuleQuantizer quantizer(golden.meta.at("quantizer").at("rules"));
      Report report;
      Graph graph = read_pt2(golden.folder / "model.pt2");
      const std::vector<std::vector<c10::IValue>> batches = batches_for(graph, golden);
      PrepareOptions options;
      if (computes_in_half(graph)) options.compat = Compat::kTorchao;  // else it becomes float32
      ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report, options);
      calibrate(observed, batches);
      const Graph converted = convert_pt2e(std::move(observed), {}, report);
      write_pt2(converted, std::filesystem::path(argv[1]) / (golden.name() + ".pt2"));
      write_outputs(std::filesystem::path(argv[1]) / (golden.name() + ".outputs.pt"),
                    Interpreter(converted).run(batches[batches.size() > 1]));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
