// Golden cases where torchao's X86 quantizer raises: Octet quantizes them in both modes. Skipped
// without OCTET_GOLDEN_DIR.
#include <cmath>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "support/golden.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_x86_golden {
namespace {

using test::GoldenCase;

// Signal to quantization noise of all outputs, in dB.
double sqnr(const std::vector<c10::IValue>& wanted, const std::vector<c10::IValue>& outputs) {
  double signal = 0, noise = 1e-30;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Tensor want = from_aten(wanted[i].toTensor().contiguous()),
                 got = from_aten(outputs.at(i).toTensor().contiguous());
    for (int64_t k = 0; k < want.numel(); ++k) {
      const double value = want.data<float>()[k], difference = value - got.data<float>()[k];
      signal += value * value;
      noise += difference * difference;
    }
  }
  return 10 * std::log10(signal / noise);
}

int count_quantized(const Graph& graph) {
  int count = 0;
  for (const Node* node : graph.nodes())
    count += node->is("quantized_decomposed.quantize_per_tensor");
  return count;
}

}  // namespace

TEST_CASE("golden: where torchao's X86 quantizer raises, Octet quantizes",
          "[quantizers][golden][x86][long]") {
  for (const GoldenCase& golden : test::golden_cases("x86_")) {
    if (!golden.peer_failed()) continue;
    for (const Compat compat : {Compat::kNone, Compat::kTorchao}) {
      INFO(golden.name() << (compat == Compat::kNone ? "" : ", compat"));
      const std::unique_ptr<Quantizer> quantizer =
          test::make_golden_quantizer(golden.meta.at("quantizer"), compat);
      const Graph model = read_pt2(golden.folder / "model.pt2");
      Report report;
      ObservedGraph observed = prepare_pt2e(read_pt2(golden.folder / "model.pt2"), *quantizer,
                                            report, {.compat = compat});
      calibrate(observed, golden.calibration());
      const Graph converted = convert_pt2e(std::move(observed), {}, report);
      CHECK_FALSE((compat == Compat::kNone && count_quantized(converted) == 0));
      CHECK_FALSE(sqnr(Interpreter(model).run(golden.example()),
                       Interpreter(converted).run(golden.example())) < 20);
    }
  }
}

}  // namespace octet::test_x86_golden
