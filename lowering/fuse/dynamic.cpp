// Movement in front of a quantization at run time, so that what reads the integers stands behind
// it.
#include "core/base/shape.h"
#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {
namespace {

// How the scales lie once the permutation or reshape is in front; nothing where that is not known.
std::optional<std::vector<int64_t>> moved_blocks(ProgramEditor& editor, const ProgramOp& move,
                                                 const ProgramOp& quantize) {
  const auto given = quantize.attributes.find("blocks");
  const size_t rank = editor.tensor(move.outputs[0]).shape.size();
  if (given == quantize.attributes.end()) return std::vector<int64_t>(rank, 1);
  const std::vector<int64_t>* blocks = std::get_if<std::vector<int64_t>>(&given->second);
  if (blocks == nullptr || quantize.sizes.contains("blocks")) return std::nullopt;
  if (product(*blocks) == 1) return std::vector<int64_t>(rank, 1);
  if (move.kind != "permute") return std::nullopt;
  std::vector<int64_t> moved;
  std::optional<size_t> dim;
  for (const int64_t given_dim : move.integers("dims")) {
    dim = find_dim(given_dim, blocks->size());
    moved.push_back((*blocks)[*dim]);
  }
  const bool keeps_rows = dim && *dim + 1 == rank;
  return keeps_rows ? std::optional(moved) : std::nullopt;
}

bool sink_one(ProgramEditor& editor, size_t i) {
  const ProgramOp& move = editor.op(i);
  if (move.kind != "permute" && move.kind != "reshape") return false;
  const int quantized = move.inputs[0];
  const ProgramOp* quantize = editor.find_producer(quantized, "fake_quantize_dynamic");
  if (quantize == nullptr || editor.only_user(quantized) < 0 ||
      editor.tensor(quantized).dtype != editor.tensor(quantize->inputs[0]).dtype)
    return false;
  const std::optional<std::vector<int64_t>> blocks = moved_blocks(editor, move, *quantize);
  if (!blocks) return false;
  ProgramOp behind = *quantize;
  behind.attributes["blocks"] = *blocks;
  const int result = move.outputs[0], source = quantize->inputs[0];
  ProgramTensor moved = editor.tensor(result);
  moved.name += "_moved";
  moved.role = ProgramTensor::Role::kIntermediate;
  const int between = editor.add_tensor(std::move(moved));
  const auto before = static_cast<size_t>(editor.producer(quantized));
  editor.op(i).inputs[0] = source;
  editor.op(i).outputs[0] = between;
  behind.inputs = {between};
  behind.outputs = {result};
  editor.insert(i + 1, std::move(behind));
  editor.erase(before);
  return true;
}

}  // namespace

int sink_dynamic_quantize(Program& program) { return rewrite_ops(program, sink_one); }

}  // namespace octet
