#include "core/interpreter/constants.h"

#include <cstring>

#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

at::DataPtr data_of(const std::shared_ptr<Storage>& storage) {
  return at::DataPtr(
      storage->data, new std::shared_ptr<Storage>(storage),
      [](void* context) { delete static_cast<std::shared_ptr<Storage>*>(context); },
      c10::Device(c10::DeviceType::CPU));
}

}  // namespace

Constants::Constants(const Graph& graph) {
  for (const auto& [fqn, constant] : graph.constants) {
    if (!constant.tensor.defined()) continue;
    const std::shared_ptr<Storage>& storage = constant.tensor.storage();
    auto found = storages_.find(storage.get());
    if (found == storages_.end())
      found = storages_.emplace(storage.get(), to_aten_storage(storage)).first;
    shared_.emplace(found->second.unsafeGetStorageImpl(), storage);
    tensors_.emplace(fqn, to_aten(constant.tensor, found->second));
  }
}

const at::Tensor* Constants::find(const std::string& fqn) const {
  const auto found = tensors_.find(fqn);
  return found == tensors_.end() ? nullptr : &found->second;
}

void Constants::before_write(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto found = shared_.find(storage);
  if (found == shared_.end() || written_.contains(storage)) return;
  const Tensor bytes = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(found->second->size)});
  if (found->second->size > 0) std::memcpy(bytes.raw(), found->second->data, found->second->size);
  storage->set_data_ptr_noswap(data_of(bytes.storage()));
  written_.insert(storage);
}

void Constants::reset() {
  for (c10::StorageImpl* storage : written_)
    storage->set_data_ptr_noswap(data_of(shared_.at(storage)));
  written_.clear();
}

}  // namespace octet
