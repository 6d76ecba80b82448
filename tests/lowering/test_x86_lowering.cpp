// A small network from the X86 quantizer runs on oneDNN without a float matrix op.
#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "lowering/lower.h"
#include "quantizers/x86/quantizer.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_x86_lowering {
namespace {

const std::string kNetwork =
    R"(graph(%w0 = param "w0": f32[8,3,3,3], %b0 = param "b0": f32[8], %w1 = param "w1": f32[8,8,3,3], %w2 = param "w2": f32[8,1,3,3],
      %w3 = param "w3": f32[10,288], %x: f32[1,3,12,12]):
    %c0: f32[1,8,12,12] = aten.conv2d.default(%x, %w0, %b0, [1, 1], [1, 1])
    %r0: f32[1,8,12,12] = aten.relu.default(%c0)
    %c1: f32[1,8,12,12] = aten.conv2d.default(%r0, %w1, None, [1, 1], [1, 1])
    %a1: f32[1,8,12,12] = aten.add.Tensor(%c1, %r0)
    %r1: f32[1,8,12,12] = aten.relu.default(%a1)
    %c2: f32[1,8,12,12] = aten.conv2d.default(%r1, %w2, None, [1, 1], [1, 1], [1, 1], 8)
    %r2: f32[1,8,12,12] = aten.hardswish.default(%c2)
    %p: f32[1,8,6,6] = aten.max_pool2d.default(%r2, [2, 2])
    %f: f32[1,288] = aten.flatten.using_ints(%p, 1)
    %l: f32[1,10] = aten.linear.default(%f, %w3)
    return (%l))";

std::vector<c10::IValue> sample(uint32_t seed) {
  return {c10::IValue(to_aten(random_floats({1, 3, 12, 12}, -1, 1, seed)))};
}

Graph quantized_network() {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config());
  Report report;
  ObservedGraph observed = prepare_pt2e(make_graph(kNetwork), quantizer, report);
  calibrate(observed, {sample(1), sample(2)});
  return convert_pt2e(std::move(observed), {}, report);
}

bool has_backend(const std::string& name) {
  const std::vector<std::string> names = backend_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE(
    "a small network quantized for x86 has no float matrix op on oneDNN and gives what its q/dq "
    "graph gives",
    "[lowering][x86]") {
  if (!has_backend("onednn")) {
    WARN("skipped: oneDNN is not in this build");
    return;
  }
  const Graph graph = quantized_network();
  Report report;
  const Program program = lower(graph, *make_support("onednn"), {}, report);
  int matrix_ops = 0;
  for (const ProgramOp& op : program.ops) {
    if (op.kind != "conv" && op.kind != "linear") continue;
    ++matrix_ops;
    CAPTURE(op.name);
    for (int input : {op.inputs[0], op.inputs[1]})
      CHECK_FALSE(!is_integer(program.tensor(input).dtype));
  }
  CHECK_FALSE(matrix_ops != 4);
  REQUIRE(program.segments.size() == 1);
  CHECK_FALSE(program.segments[0].backend != "onednn");

  const Tensor want = from_aten(Interpreter(graph).run(sample(3)).front().toTensor());
  const Tensor got = Session(program).run({from_aten(sample(3).front().toTensor())}).front();
  double greatest = 0, magnitude = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    greatest = std::max<double>(greatest, std::abs(want.data<float>()[i] - got.data<float>()[i]));
    magnitude = std::max<double>(magnitude, std::abs(want.data<float>()[i]));
  }
  CAPTURE(greatest, magnitude);
  CHECK_FALSE(greatest > 0.02 * magnitude);
}

}  // namespace octet::test_x86_lowering
