// Runs an .octet file on zeros, without LibTorch: prints the number of outputs.
#include <cstdio>

#include "backends/runtime/session.h"
#include "lowering/artifact.h"

int main(int, char** argv) {
  octet::Session session(octet::load_program(argv[1]));
  std::vector<octet::Tensor> inputs;
  for (int index : session.program().inputs) {
    const octet::ProgramTensor& tensor = session.program().tensors[static_cast<size_t>(index)];
    inputs.push_back(octet::Tensor::zeros(tensor.dtype, tensor.shape));
  }
  std::printf("outputs %zu\n", session.run(inputs).size());
}
