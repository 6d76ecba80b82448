// octet_roundtrip IN.pt2 OUT.pt2: reads a program and writes it again, for
// tests/core/check_roundtrip.py. octet_roundtrip --bare IN.pt2 OUT.pt2: the same without what the
// graph does not hold itself, as for a graph built by hand. octet_roundtrip --tensors IN.pt OUT.pt:
// the same for a file of inputs; --batches IN.pt OUT.pt: the first batch of a data set.
#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "core/pt2/tensor_file.h"
#include "core/pt2/writer.h"

int main(int count, char** arguments) {
  try {
    const std::string mode = count == 4 ? arguments[1] : "";
    if (mode == "--tensors") {
      octet::write_outputs(arguments[3], octet::read_inputs(arguments[2]));
    } else if (mode == "--batches") {
      octet::BatchReader reader(arguments[2]);
      octet::write_outputs(arguments[3], reader.next());
    } else if (mode == "--bare") {
      octet::Graph graph = octet::read_pt2(arguments[2]);
      graph.extras = nullptr;
      octet::write_pt2(graph, arguments[3]);
    } else if (count == 3) {
      octet::write_pt2(octet::read_pt2(arguments[1]), arguments[2]);
    } else {
      std::fprintf(stderr, "usage: octet_roundtrip [--bare|--tensors|--batches] IN OUT\n");
      return 2;
    }
  } catch (const octet::Error& error) {
    std::fprintf(stderr, "octet: %s\n", error.what());
    return 1;
  }
  return 0;
}
