// libFuzzer target: the input is the JSON text of the program in an .octet file. Constants get
// bytes of a pattern, so that changes of shapes and attributes reach the ops.
#include <algorithm>

#include "core/base/error.h"
#include "lowering/program/program_json.h"
#include "tests/fuzz/run_program.h"

namespace {

constexpr int64_t kMostConstantBytes = 1 << 16;

// False when they would be too large.
bool fill_constants(octet::Program& program) {
  int64_t total = 0;
  for (octet::Program& body : program.bodies)
    if (!fill_constants(body)) return false;
  for (octet::ProgramTensor& tensor : program.tensors) {
    if (!tensor.is_constant()) continue;
    const int64_t bytes = tensor.numel() * static_cast<int64_t>(octet::size_of(tensor.dtype));
    total += bytes;
    if (total > kMostConstantBytes) return false;
    tensor.data = octet::Tensor::zeros(tensor.dtype, tensor.shape);
    for (int64_t i = 0; i < bytes; ++i)
      tensor.data.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    octet::Program program = octet::program_from_json_text(
        std::string(reinterpret_cast<const char*>(bytes), size), "fuzz");
    if (!fill_constants(program)) return 0;
    try {
      octet::verify(program);
    } catch (const octet::InternalError&) {  // load_program makes an Error of it
      return 0;
    }
    octet::fuzz::run_program(std::move(program));
  } catch (const octet::Error&) {
  }
  return 0;
}
