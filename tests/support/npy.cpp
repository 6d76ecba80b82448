#include "support/npy.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>

#include "core/base/error.h"

namespace octet::test {
namespace {

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("npy", path.string(), "cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
T read_at(const std::string& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

DType dtype_of(const std::string& descr, const std::string& name) {
  static const std::map<std::string, DType> kTypes = {
      {"|b1", DType::kBool},   {"|u1", DType::kUInt8},   {"|i1", DType::kInt8},
      {"<u2", DType::kUInt16}, {"<i2", DType::kInt16},   {"<i4", DType::kInt32},
      {"<i8", DType::kInt64},  {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32},
      {"<f8", DType::kFloat64}};
  const auto it = kTypes.find(descr);
  if (it == kTypes.end()) throw Error("npy", name, "unknown element type " + descr);
  return it->second;
}

Tensor parse_npy(const std::string& bytes, const std::string& name) {
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY", 6) != 0)
    throw Error("npy", name, "is not a .npy file");
  const size_t header_start = bytes[6] == 1 ? 10 : 12;
  const size_t header_size =
      bytes[6] == 1 ? read_at<uint16_t>(bytes, 8) : read_at<uint32_t>(bytes, 8);
  const std::string header = bytes.substr(header_start, header_size);
  std::smatch match;
  static const std::regex kHeader(
      R"(\{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([^)]*)\))");
  if (!std::regex_search(header, match, kHeader))
    throw Error("npy", name, "has an unknown header " + header);
  std::vector<int64_t> shape;
  const std::string sizes = match[2];
  static const std::regex kNumber("[0-9]+");
  for (std::sregex_iterator it(sizes.begin(), sizes.end(), kNumber), end; it != end; ++it)
    shape.push_back(std::stoll(it->str()));
  Tensor tensor = Tensor::zeros(dtype_of(match[1], name), shape);
  if (bytes.size() < header_start + header_size + tensor.nbytes())
    throw Error("npy", name, "is too short");
  std::memcpy(tensor.raw(), bytes.data() + header_start + header_size, tensor.nbytes());
  return tensor;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  return parse_npy(read_bytes(path), path.string());
}

// Entries are found through the central directory at the end of the zip; numpy stores them
// uncompressed.
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path) {
  const std::string bytes = read_bytes(path);
  const size_t end = bytes.rfind("PK\x05\x06");
  if (end == std::string::npos) throw Error("npy", path.string(), "is not a .npz file");
  const size_t count = read_at<uint16_t>(bytes, end + 10);
  size_t entry = read_at<uint32_t>(bytes, end + 16);
  std::map<std::string, Tensor> arrays;
  for (size_t i = 0; i < count; ++i) {
    if (read_at<uint16_t>(bytes, entry + 10) != 0)
      throw Error("npy", path.string(), "is compressed");
    const size_t size = read_at<uint32_t>(bytes, entry + 24);
    const size_t name_size = read_at<uint16_t>(bytes, entry + 28);
    const std::string name = bytes.substr(entry + 46, name_size);
    const size_t local = read_at<uint32_t>(bytes, entry + 42);
    const size_t start =
        local + 30 + read_at<uint16_t>(bytes, local + 26) + read_at<uint16_t>(bytes, local + 28);
    arrays[name.substr(0, name.rfind(".npy"))] = parse_npy(bytes.substr(start, size), name);
    entry += 46 + name_size + read_at<uint16_t>(bytes, entry + 30) +
             read_at<uint16_t>(bytes, entry + 32);
  }
  return arrays;
}

}  // namespace octet::test
