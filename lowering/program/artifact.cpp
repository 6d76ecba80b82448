// Writes .octet files. program_json.h writes the JSON inside.
#include "lowering/program/artifact.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "lowering/program/artifact_format.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/float_compute.h"
#include "lowering/program/json.h"
#include "lowering/program/program_json.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

using namespace artifact;

const char* dtype_in_file(const std::string& name, DType dtype) {
  if (const char* found = find_dtype_name(dtype)) return found;
  throw Error("artifact", name,
              fmt::format("has dtype {}, which the file format does not have; cast the constant",
                          name_of(dtype)));
}

struct Entry {
  std::string name;
  Tensor data;
};

void add_slice_parameters(const ProgramTensor& tensor, std::vector<Entry>& entries) {
  const std::vector<float>& scale = tensor.qparams->scale;
  const std::vector<int32_t>& zero_point = tensor.qparams->zero_point;
  const int64_t count = static_cast<int64_t>(scale.size());
  entries.push_back({tensor.name + kScale, Tensor::from<float>(DType::kFloat32, {count}, scale)});
  if (std::any_of(zero_point.begin(), zero_point.end(), [](int32_t zero) { return zero != 0; }))
    entries.push_back(
        {tensor.name + kZeroPoint, Tensor::from<int32_t>(DType::kInt32, {count}, zero_point)});
}

// The entry of a constant; the bytes keep their order in memory.
Entry constant_entry(const ProgramTensor& tensor) {
  if (!is_channels_last(tensor.data)) return {tensor.name, tensor.data};
  return {tensor.name + kChannelsLast, as_channels_last(tensor.data)};
}

void add_entries(const Program& program, std::vector<Entry>& entries) {
  for (const ProgramTensor& tensor : program.tensors) {
    if (tensor.is_constant() && !tensor.stored) entries.push_back(constant_entry(tensor));
    if (tensor.qparams && !tensor.qparams->is_per_tensor()) add_slice_parameters(tensor, entries);
    if (!tensor.stored) continue;
    const StoredConstant& stored = *tensor.stored;
    if (const int bits = stored.bits(); bits <= kMostBits) {
      entries.push_back({tensor.name + packed_suffix(stored.values.dtype(), bits),
                         stored.packed.defined() ? stored.packed : pack_bits(stored.values, bits)});
    } else {
      entries.push_back({tensor.name + kValues, stored.values});
    }
    if (stored.scale.defined()) entries.push_back({tensor.name + kScale, narrowed(stored.scale)});
    if (stored.zero_point.defined())
      entries.push_back({tensor.name + kZeroPoint, narrowed(stored.zero_point)});
  }
  for (size_t i = 0; i < program.bodies.size(); ++i) {
    std::vector<Entry> inner;
    add_entries(program.bodies[i], inner);
    for (Entry& entry : inner) entries.push_back({body_prefix(i) + entry.name, entry.data});
  }
}

std::vector<Entry> entries_of(const Program& program) {
  std::vector<Entry> entries;
  add_entries(program, entries);
  // Put entries first that need no padding after them.
  std::stable_partition(entries.begin(), entries.end(),
                        [](const Entry& entry) { return entry.data.nbytes() % kAlignment == 0; });
  return entries;
}

bool has_counts(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const ProgramOp& op) { return op.is("rest"); }) ||
         std::any_of(program.bodies.begin(), program.bodies.end(), has_counts);
}

bool computes_in_bfloat16(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const ProgramOp& op) { return op.has(attr::kCompute); }) ||
         std::any_of(program.bodies.begin(), program.bodies.end(), computes_in_bfloat16);
}

bool has_scaled_states(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const ProgramOp& op) {
                       return op.is("quantize_dynamic") || (op.is("attention") && op.has_input(4));
                     }) ||
         std::any_of(program.bodies.begin(), program.bodies.end(), has_scaled_states);
}

// Whether the constant needs version 9.
bool is_narrow(const ProgramTensor& tensor) {
  if (!tensor.stored) return false;
  const StoredConstant& stored = *tensor.stored;
  const auto is_short = [](const Tensor& numbers) {
    return numbers.defined() && narrowed(numbers).dtype() != DType::kFloat32;
  };
  return stored.bits() < kMostBits || is_short(stored.scale) || is_short(stored.zero_point);
}

bool has_narrow_constants(const Program& program) {
  return std::any_of(program.tensors.begin(), program.tensors.end(), is_narrow) ||
         std::any_of(program.bodies.begin(), program.bodies.end(), has_narrow_constants);
}

bool has_linear_algebra(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const ProgramOp& op) {
                       return op.is("linalg") || (op.is("unary") && op.get(attr::kFn) == "lgamma");
                     }) ||
         std::any_of(program.bodies.begin(), program.bodies.end(), has_linear_algebra);
}

int version_of(const Program& program) {
  if (has_narrow_constants(program) || has_linear_algebra(program)) return kNarrowVersion;
  if (has_scaled_states(program)) return kScaledStatesVersion;
  if (computes_in_bfloat16(program)) return kBfloat16Version;
  if (has_counts(program)) return kCountsVersion;
  if (!program.bodies.empty()) return kBodiesVersion;
  if (!program.states.empty()) return kStatesVersion;
  const auto is_ordered = [](const ProgramTensor& tensor) {
    return tensor.data.defined() && is_channels_last(tensor.data);
  };
  return std::any_of(program.tensors.begin(), program.tensors.end(), is_ordered)
             ? kChannelsLastVersion
             : kPlainVersion;
}

std::string make_header(const Program& program, const std::vector<Entry>& entries,
                        const std::string& call_spec) {
  Json header = Json::object();
  header["__metadata__"] = {{"checksum", checksum_digits(0)},
                            {"format", "octet"},
                            {"program", to_json_text(program, SliceParameters::kElsewhere)},
                            {"version", std::to_string(version_of(program))}};
  if (!call_spec.empty()) header["__metadata__"]["call_spec"] = call_spec;
  size_t end = 0;
  int paddings = 0;
  const auto entry = [&](const std::string& name, const char* dtype,
                         const std::vector<int64_t>& shape, size_t bytes) {
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  };
  for (const auto& [name, data] : entries) {
    if (const size_t gap = aligned(end) - end; gap != 0)
      entry(fmt::format("{}{}", kPadding, paddings++), "U8", {static_cast<int64_t>(gap)}, gap);
    OCTET_ASSERT(!header.contains(name), "tensor name " + name + " is used twice");
    entry(name, dtype_in_file(name, data.dtype()), data.shape(), data.nbytes());
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize(aligned(8 + text.size()) - 8, ' ');
  if (text.size() > kLargestHeader)
    throw Error("artifact", program.backend,
                "the program's description exceeds 100 MB; lower a smaller graph");
  return text;
}

// Calls `take` with each part of the file in turn: length, header, and the constants with zeros
// between them.
template <typename Take>
void for_each_part(const std::string& header, const std::vector<Entry>& entries, const Take& take) {
  const uint64_t length = header.size();
  const std::byte zeros[kAlignment] = {};
  take(std::as_bytes(std::span(&length, 1)));
  take(std::as_bytes(std::span(header)));
  size_t end = 0;
  for (const Entry& entry : entries) {
    take(std::span(zeros, aligned(end) - end));
    end = aligned(end) + entry.data.nbytes();
    take(std::span<const std::byte>(entry.data.raw(), entry.data.nbytes()));
  }
}

void check_names(const Program& program) {
  std::set<std::string> names;
  for (const ProgramTensor& tensor : program.tensors)
    OCTET_ASSERT(names.insert(tensor.name).second, "tensor name " + tensor.name + " is used twice");
  for (const Program& body : program.bodies) check_names(body);
}

// Calls `take` with each part of the finished file in turn.
template <typename Take>
void for_each_finished_part(const Program& program, const std::string& call_spec,
                            const Take& take) {
  const std::vector<Entry> entries = entries_of(program);
  std::string header = make_header(program, entries, call_spec);
  Checksum checksum;
  for_each_part(header, entries, [&](std::span<const std::byte> part) { checksum.add(part); });
  header.replace(find_checksum(header).value(), kChecksumDigits, checksum_digits(checksum.value()));
  for_each_part(header, entries, take);
}

void check_before_saving(const Program& program) {
  verify(program);
  check_names(program);
}

}  // namespace

void save_program(const Program& program, const std::filesystem::path& path,
                  const std::string& call_spec) {
  check_before_saving(program);
  OutputFile file(path, "artifact");
  for_each_finished_part(program, call_spec,
                         [&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

std::string program_bytes(const Program& program, const std::string& call_spec) {
  check_before_saving(program);
  std::string bytes;
  for_each_finished_part(program, call_spec, [&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  return bytes;
}

}  // namespace octet
