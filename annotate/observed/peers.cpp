#include "annotate/observed/peers.h"

#include <algorithm>

#include <ATen/ops/empty_like.h>

namespace octet {

double sum_over(Peers* peers, double number) {
  if (peers != nullptr) peers->sum({&number, 1});
  return number;
}

void sum_over(Peers* peers, const std::vector<at::Tensor>& tensors) {
  if (peers == nullptr) return;
  std::vector<double> numbers;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor plain = tensor.contiguous();
    const double* begin = plain.const_data_ptr<double>();
    numbers.insert(numbers.end(), begin, begin + plain.numel());
  }
  peers->sum(numbers);
  const double* next = numbers.data();
  for (const at::Tensor& tensor : tensors) {
    at::Tensor plain = at::empty_like(tensor, at::MemoryFormat::Contiguous);
    std::copy_n(next, plain.numel(), plain.data_ptr<double>());
    tensor.copy_(plain);
    next += plain.numel();
  }
}

size_t count_of_own(const Peers* peers, size_t total) {
  if (peers == nullptr) return total;
  return total <= peers->rank() ? 0 : (total - peers->rank() - 1) / peers->count() + 1;
}

}  // namespace octet
