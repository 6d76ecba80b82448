// Follows the description of the format in numpy/lib/format.py.
#include "core/pt2/numpy_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/pt2/zip.h"

namespace octet {
namespace {

constexpr const char* kArrayStage = "inputs";
constexpr std::string_view kArrayMagic = "\x93NUMPY";
constexpr std::string_view kArraySuffix = ".npy";

struct ArrayType {
  std::string_view descr;
  at::ScalarType dtype;
};

constexpr std::array<ArrayType, 9> kArrayTypes = {{
    {"<f2", at::kHalf},
    {"<f4", at::kFloat},
    {"<f8", at::kDouble},
    {"|i1", at::kChar},
    {"<i2", at::kShort},
    {"<i4", at::kInt},
    {"<i8", at::kLong},
    {"|u1", at::kByte},
    {"|b1", at::kBool},
}};

std::string_view array_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr size_t kMostDims = 64;  // of NumPy, and of LibTorch's iterators

// An .npy file in memory.
class ArrayFile {
 public:
  // subject: in Errors. owner: keeps the bytes.
  ArrayFile(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::string subject)
      : text_(array_text(bytes)), owner_(std::move(owner)), subject_(std::move(subject)) {}

  at::Tensor read() const {
    const std::string_view header = this->header();
    const at::ScalarType dtype = dtype_of(header);
    std::vector<int64_t> shape = shape_of(header);
    const bool is_fortran = value_of(header, "fortran_order").starts_with("True");
    if (is_fortran) std::reverse(shape.begin(), shape.end());
    const at::Tensor array = data(dtype, shape, static_cast<size_t>(header.end() - text_.begin()));
    if (!is_fortran) return array;
    std::vector<int64_t> order;
    for (int64_t d = array.dim(); d-- > 0;) order.push_back(d);
    return array.permute(order).contiguous();
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(kArrayStage, subject_, problem);
  }

  // The text of the dictionary that describes the array.
  std::string_view header() const {
    constexpr size_t kVersion = kArrayMagic.size(), kLength = kVersion + 2;
    if (!text_.starts_with(kArrayMagic) || text_.size() < kLength + 4)
      fail("does not begin like an .npy file; the file is damaged");
    const bool is_long = text_[kVersion] > 1;
    const auto byte = [&](size_t i) {
      return size_t{static_cast<unsigned char>(text_[kLength + i])} << (8 * i);
    };
    const size_t length = byte(0) + byte(1) + (is_long ? byte(2) + byte(3) : 0);
    const size_t begin = kLength + (is_long ? 4 : 2);
    if (text_.size() - begin < length) fail("ends within its header; the file is damaged");
    return text_.substr(begin, length);
  }

  // What follows `'key': `.
  std::string_view value_of(std::string_view header, std::string_view key) const {
    const std::string quoted = fmt::format("'{}':", key);
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos)
      fail(fmt::format("its header has no {}; the file is damaged", key));
    header.remove_prefix(at + quoted.size());
    header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
    return header;
  }

  at::ScalarType dtype_of(std::string_view header) const {
    std::string_view descr = value_of(header, "descr");
    descr = descr.substr(0, descr.find(descr.starts_with('[') ? ']' : ','));
    if (descr.size() >= 2 && descr.front() == '\'') descr = descr.substr(1, descr.size() - 2);
    for (const ArrayType& type : kArrayTypes)
      if (descr == type.descr) return type.dtype;
    std::vector<std::string_view> known;
    for (const ArrayType& type : kArrayTypes) known.push_back(type.descr);
    fail(fmt::format("has dtype {}, want one of {}; convert it with astype()", descr,
                     fmt::join(known, ", ")));
  }

  std::vector<int64_t> shape_of(std::string_view header) const {
    std::string_view text = value_of(header, "shape");
    std::vector<int64_t> shape;
    if (!text.starts_with('(')) fail("its header has no shape; the file is damaged");
    for (text.remove_prefix(1); !text.starts_with(')');) {
      int64_t size = -1;
      const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), size);
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      if (fault != std::errc() || size < 0 || !(text.starts_with(',') || text.starts_with(')')))
        fail("has an invalid shape in its header; the file is damaged");
      shape.push_back(size);
      text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
    }
    return shape;
  }

  at::Tensor data(at::ScalarType dtype, const std::vector<int64_t>& shape, size_t offset) const {
    const size_t element = c10::elementSize(dtype);
    uint64_t bytes = element, strides = element;  // a 0 does not hide an overflow of the strides
    for (int64_t size : shape) {
      if (shape.size() > kMostDims ||
          __builtin_mul_overflow(strides, static_cast<uint64_t>(std::max<int64_t>(size, 1)),
                                 &strides) ||
          strides > INT64_MAX)
        fail("has a shape that overflows; the file is damaged");
      bytes *= static_cast<uint64_t>(size);
    }
    if (text_.size() - offset < bytes)
      fail(fmt::format("has {} bytes of data, want {} for {}[{}]; the file is damaged",
                       text_.size() - offset, bytes, c10::toString(dtype), fmt::join(shape, ", ")));
    char* from = const_cast<char*>(text_.data() + offset);
    const at::ScalarType stored = dtype == at::kBool ? at::kByte : dtype;
    at::Tensor array;
    if (reinterpret_cast<uintptr_t>(from) % element == 0) {
      array = at::from_blob(from, shape, [owner = owner_](void*) {}, stored);
    } else {
      array = at::empty(shape, stored);
      if (bytes > 0) std::memcpy(array.data_ptr(), from, bytes);
    }
    return dtype == at::kBool ? array.ne(0) : array;  // bytes other than 0 and 1 are true
  }

  std::string_view text_;
  std::shared_ptr<void> owner_;
  std::string subject_;
};

// "x" for the member "x.npy"; nothing for other files.
std::optional<std::string> array_name(std::string_view member) {
  if (!member.ends_with(kArraySuffix)) return std::nullopt;
  return std::string(member.substr(0, member.size() - kArraySuffix.size()));
}

std::vector<NamedArray> read_array_zip(const MappedFile& file, const std::string& path) {
  std::vector<NamedArray> arrays;
  for (const ZipMember& member : zip_members({file.data, file.size}, kArrayStage, path)) {
    const std::optional<std::string> name = array_name(member.name);
    if (!name)
      throw Error(kArrayStage, path,
                  fmt::format("holds the member \"{}\", want .npy files as np.savez writes them",
                              member.name));
    const std::string subject = fmt::format("{}: {}", path, member.name);
    const auto bytes = std::make_shared<std::string>();
    const bool is_packed = unpack(member, *bytes, kArrayStage, path);
    const ArrayFile array = is_packed ? ArrayFile(std::as_bytes(std::span(*bytes)), bytes, subject)
                                      : ArrayFile(member.packed, file.owner, subject);
    arrays.push_back({*name, array.read()});
  }
  return arrays;
}

bool is_unnamed(const NamedArray& array) { return array.name.starts_with("arr_"); }

std::string quoted_names(const std::vector<NamedArray>& arrays) {
  std::vector<std::string> names;
  for (const NamedArray& array : arrays) names.push_back(array.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Moves the arrays with the names of inputs to the front.
void sort_by_inputs(std::vector<NamedArray>& arrays, const std::vector<std::string>& inputs,
                    const std::string& path) {
  const auto find = [&](auto from, const std::string& name) {
    return std::find_if(from, arrays.end(),
                        [&](const NamedArray& array) { return array.name == name; });
  };
  const bool has_names = std::any_of(inputs.begin(), inputs.end(), [&](const std::string& name) {
    return find(arrays.begin(), name) != arrays.end();
  });
  if (!has_names && (arrays.size() == 1 || std::all_of(arrays.begin(), arrays.end(), is_unnamed)))
    return;
  if (std::find(inputs.begin(), inputs.end(), "") != inputs.end())
    throw Error(kArrayStage, path,
                "names arrays for a program with an unused input, whose name is not known; give "
                "them in order: np.savez(file, a, b)");
  auto front = arrays.begin();
  for (const std::string& name : inputs) {
    const auto found = find(front, name);
    if (found != arrays.end()) std::rotate(front++, found, found + 1);
  }
  if (!has_names || front - arrays.begin() != static_cast<std::ptrdiff_t>(inputs.size()))
    throw Error(kArrayStage, path,
                fmt::format("holds the arrays {}, want {}; name them after the inputs, or give "
                            "them in order: np.savez(file, a, b)",
                            quoted_names(arrays),
                            inputs.empty() ? "one" : fmt::format("{}", fmt::join(inputs, ", "))));
}

}  // namespace

bool is_numpy_file(const std::filesystem::path& path) {
  const MappedFile file = map_file(path, FileAccess::kReadOnly);
  if (file.data == nullptr) return false;
  const std::string_view text = array_text({file.data, file.size});
  constexpr size_t kNameLength = 26, kName = 30;
  if (text.starts_with(kArrayMagic)) return true;
  if (!text.starts_with("PK\3\4") || text.size() < kName) return false;
  uint16_t length = 0;
  std::memcpy(&length, text.data() + kNameLength, sizeof(length));
  return text.substr(kName, length).ends_with(kArraySuffix);
}

std::vector<NamedArray> read_arrays(const std::filesystem::path& path,
                                    const std::vector<std::string>& inputs) {
  const MappedFile file = map_file(path, FileAccess::kCopyOnWrite);
  if (file.data == nullptr) throw Error(kArrayStage, path.string(), "cannot be read");
  const std::span<const std::byte> bytes(file.data, file.size);
  if (array_text(bytes).starts_with(kArrayMagic))
    return {{"", ArrayFile(bytes, file.owner, path.string()).read()}};
  std::vector<NamedArray> arrays = read_array_zip(file, path.string());
  sort_by_inputs(arrays, inputs, path.string());
  return arrays;
}

}  // namespace octet
