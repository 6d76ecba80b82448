// Reads NumPy's files: .npy, one array, and .npz, a zip of such files that np.savez or
// np.savez_compressed wrote.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace octet {

struct NamedArray {
  std::string name;  // "" in an .npy
  at::Tensor array;
};

// By the first bytes of the file, not by its suffix. False for files that cannot be read.
bool is_numpy_file(const std::filesystem::path& path);

// The arrays with the names of `inputs` in that order, then the others in the order of the file.
// Arrays without names (arr_0, arr_1, ...) stay in the order of the file. Reads f2, f4, f8, i1, i2,
// i4, i8, u1 and bool, little-endian, also in Fortran order. Uncompressed, aligned arrays view the
// mapped file (copy-on-write). Throws Error("inputs", path, ...) for other dtypes, for damaged
// files, when some inputs have an array of their name and others have not, and for several arrays
// of which none has the name of an input.
std::vector<NamedArray> read_arrays(const std::filesystem::path& path,
                                    const std::vector<std::string>& inputs);

}  // namespace octet
