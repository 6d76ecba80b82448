// Compiles libxxhash into this file, so that no target links it.
#include "lowering/program/artifact_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace octet {

static_assert(std::endian::native == std::endian::little,
              "artifacts are little endian and mapped without conversion");

struct Checksum::State {
  XXH64_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH64_reset(&state_->hash, 0); }

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH64_update(&state_->hash, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const { return XXH64_digest(&state_->hash); }

}  // namespace octet

namespace octet::artifact {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;  // in the file
};
constexpr DTypeRow kDTypes[] = {
    {DType::kBool, "BOOL"},          {DType::kUInt8, "U8"},      {DType::kInt8, "I8"},
    {DType::kUInt16, "U16"},         {DType::kInt16, "I16"},     {DType::kUInt32, "U32"},
    {DType::kInt32, "I32"},          {DType::kUInt64, "U64"},    {DType::kInt64, "I64"},
    {DType::kFloat16, "F16"},        {DType::kBFloat16, "BF16"}, {DType::kFloat32, "F32"},
    {DType::kFloat64, "F64"},        {DType::kComplex64, "C64"}, {DType::kFloat8E4M3FN, "F8_E4M3"},
    {DType::kFloat8E5M2, "F8_E5M2"},
};

// no string in the header contains this, because its quotes would be escaped
constexpr std::string_view kChecksumKey = "\"checksum\":\"";

}  // namespace

const char* find_dtype_name(DType dtype) {
  const DTypeRow* row =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [dtype](const DTypeRow& candidate) { return candidate.dtype == dtype; });
  return row == std::end(kDTypes) ? nullptr : row->name;
}

std::optional<DType> find_dtype_by_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (name == row.name) return row.dtype;
  return std::nullopt;
}

std::string packed_suffix(DType dtype, int bits) {
  return fmt::format(":{}{}", dtype == DType::kInt8 ? 'i' : 'u', bits);
}

std::string body_prefix(size_t body) { return fmt::format("body{}/", body); }

std::string checksum_digits(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::optional<size_t> find_checksum(std::string_view header) {
  const size_t at = header.find(kChecksumKey);
  if (at == std::string_view::npos || header.size() - at - kChecksumKey.size() < kChecksumDigits)
    return std::nullopt;
  return at + kChecksumKey.size();
}

}  // namespace octet::artifact
