// Reads a program that torch.export.save wrote (schema version 8).
#pragma once

#include <filesystem>

#include "core/graph/graph.h"

namespace octet {

// Reads the program with its weights (views of the mapped file), signature, shape symbols and
// everything that the writer must write back (Graph::extras). Throws Error, one line with the
// file's name, when the file is missing, damaged or of another schema version, uses a value before
// its definition or defines it twice, or has payloads that are not dense CPU tensors.
Graph read_pt2(const std::filesystem::path& path);

}  // namespace octet
