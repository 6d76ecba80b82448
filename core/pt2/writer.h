// Writes a program as an archive that torch.export.load reads.
#pragma once

#include <filesystem>

#include "core/graph/graph.h"

namespace octet {

// Writes beside `path` and renames, so an interrupted run leaves the old file. Tensors that share a
// Storage share one record; every entry of Graph::constants is written, and nothing else. What
// read_pt2 read and no pass changed comes out equal. A graph without extras (built by hand) gets
// the calling convention "positional inputs, tuple of outputs". Throws Error when the file cannot
// be written.
void write_pt2(const Graph& graph, const std::filesystem::path& path);

}  // namespace octet
