// run_lowered PROGRAM.octet OUTPUT [EXPECTED]: runs a program on inputs made from a fixed seed and
// writes the bytes of its outputs. With EXPECTED, from another machine, they may differ by one
// step, also where floats come from integers; other floats by one part in 10,000.
#define CATCH_CONFIG_RUNNER  // the program builder links Catch2; main is below
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "tests/backends/small_programs.h"

using namespace octet;

namespace {

std::vector<Tensor> inputs_of(const Program& program) {
  std::vector<Tensor> inputs;
  for (int index : program.inputs) {
    if (index < 0) {
      inputs.emplace_back();
      continue;
    }
    const ProgramTensor& info = program.tensor(index);
    if (info.dtype == DType::kFloat32) {
      inputs.push_back(random_floats(info.shape, -2, 2, static_cast<uint32_t>(index + 1)));
    } else if (is_integer(info.dtype) && size_of(info.dtype) <= 4 && info.qparams) {
      inputs.push_back(random_integers(info.dtype, info.shape, static_cast<uint32_t>(index + 1)));
    } else {
      inputs.push_back(Tensor::zeros(info.dtype, info.shape));  // indices, masks
    }
  }
  return inputs;
}

// The step of a float output that a dequantize op writes; 0 of any other.
double step_of(const Program& program, int output) {
  for (const ProgramOp& op : program.ops) {
    if (op.kind != "dequantize" || op.outputs != std::vector<int>{output}) continue;
    const std::optional<TensorQParams>& qparams = program.tensor(op.inputs[0]).qparams;
    if (qparams && qparams->is_per_tensor()) return qparams->scale[0];
  }
  return 0;
}

// The greatest difference: in steps of integer outputs and of float ones that have a step, in
// ten-thousandths of the greatest value of others.
double difference(const Tensor& a, const std::byte* other, double step) {
  double greatest = 0, most = 1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    double x = 0, y = 0;
    if (a.dtype() == DType::kFloat32) {
      float given = 0;
      std::memcpy(&given, other + 4 * i, 4);
      x = a.data<float>()[i], y = given;
      most = std::max(most, std::fabs(x));
    } else {
      x = a.data<int8_t>()[i], y = static_cast<double>(static_cast<int8_t>(other[i]));
      if (a.dtype() == DType::kUInt8)
        x = a.data<uint8_t>()[i], y = std::to_integer<uint8_t>(other[i]);
    }
    if (!(std::isnan(x) && std::isnan(y))) greatest = std::max(greatest, std::fabs(x - y));
  }
  if (a.dtype() != DType::kFloat32) return greatest;
  return step > 0 ? greatest / step : greatest / most * 1e4;
}

bool is_compared(const Tensor& tensor) {
  return tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kInt8 ||
         tensor.dtype() == DType::kUInt8;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fputs("run_lowered: want PROGRAM.octet OUTPUT [EXPECTED]\n", stderr);
    return 2;
  }
  try {
    const Program program = load_program(argv[1]);
    const std::vector<Tensor> outputs = Session(program).run(inputs_of(program));
    std::string bytes;
    for (const Tensor& tensor : outputs)
      bytes.append(reinterpret_cast<const char*>(tensor.raw()), tensor.nbytes());
    write_bytes(argv[2], bytes);
    const std::string expected = argc > 3 ? read_bytes(argv[3]) : bytes;
    double greatest = expected.size() == bytes.size() ? 0 : INFINITY;
    const std::byte* other = reinterpret_cast<const std::byte*>(expected.data());
    for (size_t i = 0; i < outputs.size() && expected.size() == bytes.size();
         other += outputs[i++].nbytes())
      if (is_compared(outputs[i]))
        greatest =
            std::max(greatest, difference(outputs[i], other, step_of(program, program.outputs[i])));
    if (greatest > 1.001) fmt::print(stderr, "{}: differs by {}\n", argv[1], greatest);
    return greatest > 1.001;
  } catch (const Error& error) {
    fmt::print(stderr, "run_lowered: {}\n", error.what());
    return 1;
  }
}
