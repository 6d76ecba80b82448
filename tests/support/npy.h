// Reads files of numpy.save and numpy.savez (uncompressed).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/base/tensor.h"

namespace octet::test {

// Contiguous little-endian arrays of bool, integers and floats. Throws Error("npy", ...) for
// anything else.
Tensor read_npy(const std::filesystem::path& path);
// the arrays by name, without ".npy"
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path);

}  // namespace octet::test
