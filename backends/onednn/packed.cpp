// Entries are keyed by the address of the constant's elements. The address stays valid because an
// entry owns their storage.
#include "backends/onednn/packed.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/mapped_file.h"
#include "lowering/program/stored_constant.h"

namespace octet::onednn {
namespace {

struct Packed;

struct PackedEntry {
  PackedForm form;
  std::weak_ptr<Packed> packed;
};

struct Cache {
  std::mutex mutex;
  std::map<const std::byte*, std::vector<PackedEntry>> entries;
};

// Never destroyed: segments may outlive static objects.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

struct Packed {
  std::shared_ptr<std::byte> bytes;
  std::vector<Tensor> sources;  // own the addresses that serve as keys
  const std::byte* address;

  Packed(std::shared_ptr<std::byte> given, std::vector<Tensor> from)
      : bytes(std::move(given)), sources(std::move(from)), address(sources[0].raw()) {}
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed() {
    const std::lock_guard<std::mutex> lock(cache().mutex);
    const std::map<const std::byte*, std::vector<PackedEntry>>::iterator found =
        cache().entries.find(address);
    if (found == cache().entries.end()) return;
    std::erase_if(found->second, [](const PackedEntry& entry) { return entry.packed.expired(); });
    if (found->second.empty()) cache().entries.erase(found);
  }
};

// Null when not found.
std::shared_ptr<Packed> find(const std::byte* address, const PackedForm& form) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  const std::map<const std::byte*, std::vector<PackedEntry>>::const_iterator found =
      cache().entries.find(address);
  if (found == cache().entries.end()) return nullptr;
  for (const PackedEntry& entry : found->second)
    if (entry.form == form)
      if (std::shared_ptr<Packed> packed = entry.packed.lock()) return packed;
  return nullptr;
}

std::shared_ptr<std::byte> bytes_of(const std::shared_ptr<Packed>& packed) {
  return std::shared_ptr<std::byte>(packed, packed->bytes.get());
}

using Pack = std::function<PackedBlock()>;

// Describes a oneDNN layout as text; nullopt for formats that do not reveal their order.
std::optional<std::string> describe(const dnnl::memory::desc& layout) {
  if (layout.get_size() == 0) return "none";
  if (layout.get_format_kind() != dnnl::memory::format_kind::blocked) return std::nullopt;
  return fmt::format(
      "{} [{}] [{}] [{}] [{}] {} [{}] [{}], {} bytes", static_cast<int>(layout.get_data_type()),
      fmt::join(layout.get_dims(), ","), fmt::join(layout.get_padded_dims(), ","),
      fmt::join(layout.get_padded_offsets(), ","), fmt::join(layout.get_strides(), ","),
      layout.get_submemory_offset(), fmt::join(layout.get_inner_blks(), ","),
      fmt::join(layout.get_inner_idxs(), ","), layout.get_size());
}

// Returns a key that is equal for equal contents, in every process.
std::optional<std::string> key_of(const PackedCache& kept, const std::vector<Tensor>& sources,
                                  const PackedForm& form) {
  const std::optional<std::string> plain = describe(form.plain), packed = describe(form.packed);
  if (!plain || !packed) return std::nullopt;
  std::string key = fmt::format("{}; {} to {}", form.custom, *plain, *packed);
  for (const Tensor& source : sources) {
    if (!source.defined()) continue;
    key += fmt::format("; {}[{}] {}", short_name_of(source.dtype()), fmt::join(source.shape(), ","),
                       kept.name_of({source.raw(), source.nbytes()}));
  }
  return key;
}

PackedBlock read_or_pack(const std::vector<Tensor>& sources, const PackedForm& form,
                         const Pack& pack, const PackedCache::Fits& fits) {
  PackedCache* kept = PackedCache::current();
  if (kept == nullptr || !std::all_of(sources.begin(), sources.end(), [](const Tensor& t) {
        return !t.defined() || t.is_contiguous();
      }))
    return pack();
  const std::optional<std::string> key = key_of(*kept, sources, form);
  if (!key) return pack();
  const auto has_size = [&](const PackedBlock& block) { return block.size == form.bytes; };
  if (const std::optional<PackedBlock> known = kept->find(*key, fits ? fits : has_size))
    return *known;
  const PackedBlock block = pack();
  kept->add(*key, block);
  return block;
}

// The first source is the key. in_memory: `form` with the addresses of the other sources.
std::shared_ptr<std::byte> find_or_pack(std::vector<Tensor> sources, const PackedForm& form,
                                        const PackedForm& in_memory, const Pack& pack,
                                        const PackedCache::Fits& fits) {
  const Tensor key = sources[0];
  if (!key.is_contiguous()) return pack().bytes;
  if (const std::shared_ptr<Packed> known = find(key.raw(), in_memory)) return bytes_of(known);
  const PackedBlock block = read_or_pack(
      sources, form,
      [&] {
        fetch_pages(key);
        return pack();
      },
      fits);
  const std::shared_ptr<Packed> made = std::make_shared<Packed>(block.bytes, std::move(sources));
  release_pages(key);
  // another thread was faster
  if (const std::shared_ptr<Packed> known = find(key.raw(), in_memory)) return bytes_of(known);
  const std::lock_guard<std::mutex> lock(cache().mutex);
  cache().entries[made->address].push_back({in_memory, made});
  return bytes_of(made);
}

const void* address_of(const Tensor& tensor) { return tensor.defined() ? tensor.raw() : nullptr; }

}  // namespace

std::shared_ptr<std::byte> find_or_pack(const Tensor& constant, const PackedForm& form,
                                        const Pack& pack, const PackedCache::Fits& fits) {
  return find_or_pack(std::vector<Tensor>{constant}, form, form, pack, fits);
}

std::shared_ptr<std::byte> find_or_pack(const StoredConstant& stored, const PackedForm& form,
                                        const Pack& pack) {
  PackedForm in_memory = form;
  in_memory.custom +=
      fmt::format("expanded by {}, {}", address_of(stored.scale), address_of(stored.zero_point));
  return find_or_pack(std::vector<Tensor>{bytes_of(stored), stored.scale, stored.zero_point}, form,
                      in_memory, pack, {});
}

}  // namespace octet::onednn
