#include "tools/cli/common/run_session.h"

#include "core/interpreter/aten_bridge.h"

namespace octet {

std::vector<c10::IValue> run_session(Session& session, const std::vector<c10::IValue>& inputs) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& input : inputs)
    tensors.push_back(input.isTensor() ? from_aten(input.toTensor()) : Tensor());
  std::vector<c10::IValue> outputs;
  for (const Tensor& tensor : session.run(tensors)) outputs.emplace_back(to_aten(tensor));
  return outputs;
}

}  // namespace octet
