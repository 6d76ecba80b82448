// Defines the custom op for LibTorch: models and calibration call it; torch.export calls it on meta
// tensors for shapes.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <torch/library.h>

namespace {

// x * sigmoid(beta * x)
at::Tensor swish(const at::Tensor& x, double beta) {
  return at::mul(x, at::sigmoid(at::mul(x, beta)));
}
at::Tensor swish_shape(const at::Tensor& x, double) { return at::empty_like(x); }

}  // namespace

TORCH_LIBRARY(acme, library) { library.def("swish(Tensor x, float beta=1.0) -> Tensor"); }
TORCH_LIBRARY_IMPL(acme, CPU, library) { library.impl("swish", swish); }
TORCH_LIBRARY_IMPL(acme, Meta, library) { library.impl("swish", swish_shape); }
