#include "acme_kernels.h"

#include <cmath>

namespace acme {

void run_swish(const octet::CustomCall& call) {
  const float beta = static_cast<float>(call.op.get(octet::attr::Real("beta")));
  const float* x = call.inputs[0].data<float>();
  float* y = call.outputs[0].data<float>();
  for (int64_t i = 0, count = call.inputs[0].numel(); i < count; ++i)
    y[i] = x[i] / (1 + std::exp(-beta * x[i]));
}

}  // namespace acme
