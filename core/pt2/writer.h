// Writes a program as an archive that torch.export.load reads.
#pragma once

#include <filesystem>

#include "core/graph/graph.h"

namespace octet {

// Written to a temporary file and renamed, so an interrupted run leaves the old file. Tensors that
// share a Storage share a record; exactly the entries of Graph::constants are written. What
// read_pt2 read and no pass changed is written back equal. A graph without extras (built by hand)
// gets the calling convention "positional inputs, tuple of outputs". Throws Error when the file
// cannot be written.
void write_pt2(const Graph& graph, const std::filesystem::path& path);

}  // namespace octet
