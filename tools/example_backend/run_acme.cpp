// run_acme MODEL.octet: runs a program once on zeros, without LibTorch, and prints its outputs.
#include <cstdio>
#include <exception>

#include "acme_backend.h"
#include "acme_kernels.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: run_acme MODEL.octet\n");
    return 2;
  }
  try {
    octet::register_custom_kernel("acme.swish.default", acme::run_swish);
    acme::register_npu();
    octet::Session session(octet::load_program(arguments[1]));
    std::vector<octet::Tensor> inputs;
    for (int index : session.program().inputs) {
      const octet::ProgramTensor& tensor = session.program().tensor(index);
      inputs.push_back(octet::Tensor::zeros(tensor.dtype, tensor.shape));
    }
    for (const octet::Tensor& output : session.run(inputs))
      std::printf("%s\n", octet::describe(output).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_acme: %s\n", error.what());
    return 1;
  }
}
