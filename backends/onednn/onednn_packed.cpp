// Keyed by the address of the constant's elements, which stay where they are as long as an entry lives: it holds their storage.
#include "backends/onednn/onednn_packed.h"

#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "lowering/mapped_file.h"

namespace octet::onednn {
namespace {

struct Packed;

struct Entry {
  PackedForm form;
  std::weak_ptr<Packed> packed;
};

struct Cache {
  std::mutex mutex;
  std::map<const std::byte*, std::vector<Entry>> entries;
};

// Never destroyed: segments may end after static objects.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

struct Packed {
  std::shared_ptr<void> bytes;
  std::vector<Tensor> sources;  // their addresses belong to nobody else as long as these stand
  const std::byte* address;

  Packed(std::shared_ptr<void> given, std::vector<Tensor> from) : bytes(std::move(given)), sources(std::move(from)), address(sources[0].raw()) {}
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed() {
    const std::lock_guard<std::mutex> lock(cache().mutex);
    const std::map<const std::byte*, std::vector<Entry>>::iterator found = cache().entries.find(address);
    if (found == cache().entries.end()) return;
    std::erase_if(found->second, [](const Entry& entry) { return entry.packed.expired(); });
    if (found->second.empty()) cache().entries.erase(found);
  }
};

// Null when there is none.
std::shared_ptr<Packed> find(const std::byte* address, const PackedForm& form) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  const std::map<const std::byte*, std::vector<Entry>>::const_iterator found = cache().entries.find(address);
  if (found == cache().entries.end()) return nullptr;
  for (const Entry& entry : found->second)
    if (entry.form == form)
      if (std::shared_ptr<Packed> packed = entry.packed.lock()) return packed;
  return nullptr;
}

std::shared_ptr<void> bytes_of(const std::shared_ptr<Packed>& packed) { return std::shared_ptr<void>(packed, packed->bytes.get()); }

// The first source is the one to be found by.
std::shared_ptr<void> find_or_pack(std::vector<Tensor> sources, const PackedForm& form, const std::function<std::shared_ptr<void>()>& pack) {
  const Tensor key = sources[0];
  if (!key.is_contiguous()) return pack();
  if (const std::shared_ptr<Packed> known = find(key.raw(), form)) return bytes_of(known);
  fetch_pages(key);
  const std::shared_ptr<Packed> made = std::make_shared<Packed>(pack(), std::move(sources));
  release_pages(key);
  if (const std::shared_ptr<Packed> known = find(key.raw(), form)) return bytes_of(known);  // another thread was faster
  const std::lock_guard<std::mutex> lock(cache().mutex);
  cache().entries[made->address].push_back({form, made});
  return bytes_of(made);
}

const void* address_of(const Tensor& tensor) { return tensor.defined() ? tensor.raw() : nullptr; }

}  // namespace

std::shared_ptr<void> find_or_pack(const Tensor& constant, const PackedForm& form, const std::function<std::shared_ptr<void>()>& pack) {
  return find_or_pack(std::vector<Tensor>{constant}, form, pack);
}

std::shared_ptr<void> find_or_pack(const StoredConstant& stored, PackedForm form, const std::function<std::shared_ptr<void>()>& pack) {
  form.own += fmt::format("expanded by {}, {}", address_of(stored.scale), address_of(stored.zero_point));
  return find_or_pack(std::vector<Tensor>{stored.values, stored.scale, stored.zero_point}, form, pack);
}

}  // namespace octet::onednn
