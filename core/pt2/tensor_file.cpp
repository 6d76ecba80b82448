#include "core/pt2/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/graph/graph.h"
#include "core/pt2/archive.h"
#include "core/pt2/numpy_file.h"

namespace octet {
namespace {

constexpr const char* kStage = "inputs";
constexpr std::string_view kExpected =
    "want a torch.save file of a tuple or list of tensors, ints, floats, bools, strings and None";

// Storages given to LibTorch, by address, with the number of bytes that exist.
using StorageSizes = std::map<const void*, size_t>;

// LibTorch's reader knows few types and reports others (such as an OrderedDict) as internal errors.
std::string unreadable(const std::string& why) {
  if (why.find("report a bug") != std::string::npos)
    return fmt::format("holds a Python object of another type; {}", kExpected);
  return fmt::format("cannot be read: {}; {}", why, kExpected);
}

// The pickle of a torch.save file with its storages mapped.
c10::IValue unpickle(ArchiveReader& archive, const std::filesystem::path& path,
                     StorageSizes& sizes) {
  const std::string text = archive.read("data.pkl");
  size_t position = 0;
  const auto read = [&](char* buffer, size_t count) {
    const size_t there = std::min(count, text.size() - position);
    std::memcpy(buffer, text.data() + position, there);
    position += there;
    return there;
  };
  const auto read_record = [&](const std::string& name) {
    const std::shared_ptr<Storage> storage = archive.map("data/" + name);
    sizes[storage->data] = std::max(sizes[storage->data], storage->size);
    auto owner = std::make_unique<std::shared_ptr<Storage>>(storage);
    const auto release = [](void* context) {
      delete static_cast<std::shared_ptr<Storage>*>(context);
    };
    return at::DataPtr(storage->data, owner.release(), release, at::Device(at::kCPU));
  };
  try {
    torch::jit::Unpickler unpickler(read, nullptr, nullptr, read_record, at::Device(at::kCPU));
    return unpickler.parse_ivalue();
  } catch (const c10::Error& error) {
    throw Error(kStage, path.string(), unreadable(one_line(error.what_without_backtrace())));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(kStage, path.string(), unreadable(one_line(error.what())));
  }
}

c10::IValue unpickle(const std::filesystem::path& path, StorageSizes& sizes) {
  ArchiveReader archive(path, kStage);
  return unpickle(archive, path, sizes);
}

// LibTorch trusts the sizes in the pickle, so checks that each tensor lies within the file's data.
void check_tensor(const at::Tensor& tensor, const StorageSizes& sizes,
                  const std::filesystem::path& path) {
  if (!tensor.defined()) return;
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    throw Error(kStage, path.string(), "holds a sparse or quantized tensor, want dense ones");
  const size_t element = tensor.element_size();
  const auto found = sizes.find(tensor.storage().data());
  const size_t limit = found == sizes.end() ? tensor.storage().nbytes() : found->second;
  int64_t first = tensor.storage_offset();
  int64_t last = first;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) < 0)
      throw Error(kStage, path.string(), "holds a tensor of a negative size; the file is damaged");
    if (tensor.size(i) == 0) return;
    int64_t reach = 0;
    int64_t& end = tensor.stride(i) < 0 ? first : last;
    if (__builtin_mul_overflow(tensor.size(i) - 1, tensor.stride(i), &reach) ||
        __builtin_add_overflow(end, reach, &end))
      throw Error(kStage, path.string(),
                  "holds a tensor whose sizes overflow; the file is damaged");
  }
  if (first < 0 || last < 0 || static_cast<uint64_t>(last) >= limit / element)
    throw Error(kStage, path.string(),
                fmt::format("a tensor reaches element {}, got a storage of {}; the file is damaged",
                            last, limit / element));
}

c10::IValue checked_value(const c10::IValue& value, const StorageSizes& sizes,
                          const std::filesystem::path& path) {
  if (value.isTuple() || value.isList())
    throw Error(
        kStage, path.string(),
        fmt::format("holds a {} within another, {}; a list of tuples is data, for --calibration",
                    value.tagKind(), kExpected));
  if (value.isTensor()) {
    check_tensor(value.toTensor(), sizes, path);
    if (!value.toTensor().defined()) return c10::IValue();
    return value.toTensor().detach().resolve_conj().resolve_neg();
  }
  if (value.isInt() || value.isDouble() || value.isBool() || value.isNone() || value.isString())
    return value;
  throw Error(kStage, path.string(), fmt::format("holds a {}, {}", value.tagKind(), kExpected));
}

// The items of a tuple or list; a lone tensor is one item.
std::vector<c10::IValue> items_of(const c10::IValue& value, const std::filesystem::path& path) {
  if (value.isTensor()) return {value};
  if (value.isTuple()) return value.toTupleRef().elements().vec();
  if (value.isList()) return value.toListRef().vec();
  throw Error(kStage, path.string(), fmt::format("holds a {}, {}", value.tagKind(), kExpected));
}

std::vector<c10::IValue> checked_items(const c10::IValue& value, const StorageSizes& sizes,
                                       const std::filesystem::path& path) {
  std::vector<c10::IValue> items;
  for (const c10::IValue& item : items_of(value, path))
    items.push_back(checked_value(item, sizes, path));
  return items;
}

// The leaves of tuples, lists and dicts, in the order of torch's pytrees.
void add_leaves(const c10::IValue& value, const StorageSizes& sizes,
                const std::filesystem::path& path, std::vector<c10::IValue>& leaves) {
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) add_leaves(entry.value(), sizes, path, leaves);
  } else if (value.isTuple() || value.isList()) {
    for (const c10::IValue& item : items_of(value, path)) add_leaves(item, sizes, path, leaves);
  } else {
    leaves.push_back(checked_value(value, sizes, path));
  }
}

bool is_given_by_caller(const GraphInput& input) {
  return input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
}

}  // namespace

std::optional<std::vector<c10::IValue>> read_example_inputs(const Graph& graph) {
  if (graph.extras == nullptr) return std::nullopt;
  const std::string name = fmt::format("data/sample_inputs/{}.pt", graph.extras->model_name);
  for (const auto& [record, bytes] : graph.extras->records) {
    if (record != name) continue;
    std::vector<c10::IValue> leaves;
    try {
      ArchiveReader archive(bytes, name, kStage);
      StorageSizes sizes;
      add_leaves(unpickle(archive, name, sizes), sizes, name, leaves);
    } catch (const Error&) {
      return std::nullopt;
    }
    const auto wanted = std::ranges::count_if(graph.inputs(), is_given_by_caller);
    if (static_cast<size_t>(wanted) == leaves.size()) return leaves;
  }
  return std::nullopt;
}

std::vector<c10::IValue> read_inputs(const std::filesystem::path& path,
                                     const std::vector<std::string>& inputs) {
  if (is_numpy_file(path)) {
    std::vector<c10::IValue> items;
    for (NamedArray& array : read_arrays(path, inputs)) items.emplace_back(std::move(array.array));
    return items;
  }
  StorageSizes sizes;
  const c10::IValue value = unpickle(path, sizes);
  return checked_items(value, sizes, path);
}

namespace {

class ReadBatches : public HeldBatches {
 public:
  size_t size() const override { return batches.size(); }
  std::vector<c10::IValue> at(size_t index) const override { return batches[index]; }

  std::vector<std::vector<c10::IValue>> batches;
};

struct Held {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const HeldBatches>> batches;  // by name
};

Held& held() {
  static Held all;
  return all;
}

std::shared_ptr<const HeldBatches> find_held(const std::string& name) {
  const std::lock_guard lock(held().mutex);
  const auto found = held().batches.find(name);
  return found == held().batches.end() ? nullptr : found->second;
}

std::shared_ptr<const HeldBatches> read_batches(const std::filesystem::path& path) {
  if (is_numpy_file(path))
    throw Error(kStage, path.string(),
                "holds NumPy arrays, want a torch.save file of a list of input tuples");
  StorageSizes sizes;
  const c10::IValue value = unpickle(path, sizes);
  if (!value.isList() && !value.isTuple())
    throw Error(
        kStage, path.string(),
        fmt::format("holds a {}, want a list of input tuples, one per batch", value.tagKind()));
  auto read = std::make_shared<ReadBatches>();
  for (const c10::IValue& batch : items_of(value, path)) {
    if (!batch.isTensor() && !batch.isTuple() && !batch.isList())
      throw Error(
          kStage, path.string(),
          fmt::format("batch {} is a {}, want a tuple of inputs", read->size(), batch.tagKind()));
    read->batches.push_back(checked_items(batch, sizes, path));
  }
  if (read->batches.empty())
    throw Error(kStage, path.string(), "holds no batches, got 0, want at least 1");
  return read;
}

}  // namespace

void hold_batches(const std::string& name, std::shared_ptr<const HeldBatches> batches) {
  const std::lock_guard lock(held().mutex);
  if (batches)
    held().batches[name] = std::move(batches);
  else
    held().batches.erase(name);
}

std::shared_ptr<const HeldBatches> open_batches(const std::filesystem::path& path) {
  std::shared_ptr<const HeldBatches> held = find_held(path.string());
  return held != nullptr ? held : read_batches(path);
}

bool are_held(const std::string& name) { return find_held(name) != nullptr; }

struct BatchReader::State {
  std::shared_ptr<const HeldBatches> batches;
  size_t next = 0;
};

BatchReader::BatchReader(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->batches = open_batches(path);
}

BatchReader::~BatchReader() = default;
BatchReader::BatchReader(BatchReader&&) noexcept = default;
BatchReader& BatchReader::operator=(BatchReader&&) noexcept = default;

size_t BatchReader::size() const { return state_->batches->size(); }
bool BatchReader::done() const { return state_->next == size(); }
void BatchReader::rewind() { state_->next = 0; }

std::vector<c10::IValue> BatchReader::next() {
  OCTET_ASSERT(!done(), "all batches were read");
  return state_->batches->at(state_->next++);
}

std::vector<c10::IValue> BatchReader::at(size_t index) const {
  OCTET_ASSERT(index < size(), "no such batch");
  return state_->batches->at(index);
}

namespace {

c10::IValue tuple_of(const std::vector<c10::IValue>& values) {
  std::vector<c10::IValue> items;
  for (const c10::IValue& value : values) {
    if (!value.isTensor() || !value.toTensor().defined()) {
      items.push_back(value.isTensor() ? c10::IValue() : value);
      continue;
    }
    // A view would write its whole storage to the file.
    const at::Tensor tensor = value.toTensor().detach().resolve_conj().resolve_neg().contiguous();
    const bool is_whole =
        tensor.storage_offset() == 0 && tensor.nbytes() == tensor.storage().nbytes();
    items.emplace_back(is_whole ? tensor : tensor.clone(at::MemoryFormat::Contiguous));
  }
  return c10::ivalue::Tuple::create(std::move(items));
}

void write_pickled(const std::filesystem::path& path, const c10::IValue& value) {
  std::vector<char> bytes;
  try {
    bytes = torch::jit::pickle_save(value);
  } catch (const c10::Error& error) {
    throw Error("outputs", path.string(),
                fmt::format("cannot be written: {}", one_line(error.what_without_backtrace())));
  }
  write_file(path, {bytes.data(), bytes.size()}, "outputs");
}

}  // namespace

void write_outputs(const std::filesystem::path& path, const std::vector<c10::IValue>& values) {
  write_pickled(path, tuple_of(values));
}

void write_steps(const std::filesystem::path& path,
                 const std::vector<std::vector<c10::IValue>>& steps) {
  std::vector<c10::IValue> tuples;
  for (const std::vector<c10::IValue>& values : steps) tuples.push_back(tuple_of(values));
  write_pickled(path, c10::ivalue::Tuple::create(std::move(tuples)));
}

}  // namespace octet
