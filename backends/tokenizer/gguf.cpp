#include "backends/tokenizer/gguf.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet::tokenizer {
namespace {

// The types of values, in the order of their numbers.
enum class Type : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kList,
  kU64,
  kI64,
  kF64  // clang-format off
};  // clang-format on

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::string_view bytes) : path_(path), rest_(bytes) {}

  std::map<std::string, GgufValue> read(std::string_view prefix) {
    take(4);  // "GGUF"
    const uint32_t version = number<uint32_t>();
    if (version != 2 && version != 3)
      fail(fmt::format("has version {} of GGUF, want 2 or 3; convert the model again", version));
    number<uint64_t>();  // tensors
    std::map<std::string, GgufValue> values;
    for (uint64_t count = number<uint64_t>(); count > 0; --count) {
      const std::string name = text();
      const Type type = static_cast<Type>(number<uint32_t>());
      GgufValue value = read_value(type);
      if (name.starts_with(prefix)) values[name] = std::move(value);
    }
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", path_.string(), what);
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) fail("is cut off or damaged; download it again");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<uint64_t>())); }

  void add(Type type, GgufValue& to) {
    const auto add_number = [&](auto value) { to.numbers.push_back(static_cast<double>(value)); };
    switch (type) {
      case Type::kU8:
      case Type::kBool:
        return add_number(number<uint8_t>());
      case Type::kI8:
        return add_number(number<int8_t>());
      case Type::kU16:
        return add_number(number<uint16_t>());
      case Type::kI16:
        return add_number(number<int16_t>());
      case Type::kU32:
        return add_number(number<uint32_t>());
      case Type::kI32:
        return add_number(number<int32_t>());
      case Type::kF32:
        return add_number(number<float>());
      case Type::kU64:
        return add_number(number<uint64_t>());
      case Type::kI64:
        return add_number(number<int64_t>());
      case Type::kF64:
        return add_number(number<double>());
      case Type::kText:
        return to.texts.push_back(text());
      case Type::kList:
        break;
    }
    fail("is cut off or damaged; download it again");
  }

  GgufValue read_value(Type type) {
    GgufValue value;
    value.is_list = type == Type::kList;
    if (!value.is_list) {
      add(type, value);
      return value;
    }
    const Type element = static_cast<Type>(number<uint32_t>());
    for (uint64_t count = number<uint64_t>(); count > 0; --count) add(element, value);
    return value;
  }

  std::filesystem::path path_;
  std::string_view rest_;
};

}  // namespace

std::map<std::string, GgufValue> read_gguf(const std::filesystem::path& path,
                                           std::string_view bytes, std::string_view prefix) {
  return Reader(path, bytes).read(prefix);
}

}  // namespace octet::tokenizer
