#include "tests/fuzz/run_program.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "lowering/program/program_json.h"
#include "lowering/program/specialize.h"

namespace octet::fuzz {
namespace {

constexpr size_t kMemory = 1 << 18;  // bytes: so that no run takes long
constexpr size_t kMostOps = 64, kMostRounds = 8;
constexpr int64_t kMostConstantBytes = 1 << 16;

size_t count_ops(const Program& program) {
  size_t count = program.ops.size();
  for (const Program& body : program.bodies) count += count_ops(body);
  return count;
}

constexpr float kFloats[] = {0.0f,
                             -0.0f,
                             1e-45f,
                             3e38f,
                             -3e38f,
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

void fill(Tensor& tensor, std::mt19937& random) {
  std::byte* bytes = tensor.raw();
  const size_t element = size_of(tensor.dtype()), kind = random() % 4;
  for (size_t at = 0; at < tensor.nbytes(); at += element) {
    uint64_t bits = random() | static_cast<uint64_t>(random()) << 32;
    if (tensor.dtype() == DType::kFloat32) {
      const float small = static_cast<float>(static_cast<int32_t>(random())) / 1e9f;
      bits = std::bit_cast<uint32_t>(kind == 0 ? kFloats[random() % std::size(kFloats)] : small);
      if (kind == 1) bits = random();
    } else if (kind != 0) {
      bits = static_cast<uint64_t>(static_cast<int64_t>(random() % 8) - 2);
    }
    std::memcpy(bytes + at, &bits, element);
  }
}

// Nothing if the inputs are refused, such as positions beyond a cache, which changes no state.
std::optional<std::vector<Tensor>> run_or_refuse(Session& session,
                                                 const std::vector<Tensor>& inputs) {
  try {
    return session.run(inputs);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool are_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].shape() != b[i].shape() ||
        (a[i].nbytes() != 0 && std::memcmp(a[i].raw(), b[i].raw(), a[i].nbytes()) != 0))
      return false;
  return true;
}

// Refused for states other than caches, and for more positions than a cache has.
void truncate_or_refuse(Session& session, int64_t count) {
  try {
    session.truncate_states(count);
  } catch (const Error&) {
  }
}

// Runs, resets, cuts, duplicates and copies sessions in random order. Then the copy and the
// original must give the same bits for the same inputs; otherwise it ends the process.
void run_from_states(Session& session, std::vector<Tensor> inputs, std::mt19937& random) {
  constexpr int kSteps = 8;
  const auto refill = [&] {
    for (Tensor& input : inputs)
      if (input.defined() && input.numel() != 0) fill(input, random);
  };
  Session other = session.duplicate();
  for (int step = 0; step < kSteps; ++step) {
    switch (random() % 6) {
      case 0: session.reset_states(); break;
      case 1: other.copy_states(session); break;
      case 2: session.copy_states(other); break;
      case 3: other = session.duplicate(); break;
      case 4: truncate_or_refuse(session, static_cast<int64_t>(random() % 12) - 1); break;
      default: refill(); run_or_refuse(session, inputs);
    }
  }
  other.copy_states(session);
  refill();
  const std::optional<std::vector<Tensor>> want = run_or_refuse(session, inputs),
                                           got = run_or_refuse(other, inputs);
  if (want.has_value() == got.has_value() && (!want || are_equal(*want, *got))) return;
  std::fputs("fuzz: a copied session gives other bits\n", stderr);
  std::abort();
}

void run_at_shapes_of(Session& session, const Program& program, std::mt19937& random) {
  std::vector<Tensor> inputs;
  for (int index : program.inputs) {
    const ProgramTensor* info = index < 0 ? nullptr : &program.tensor(index);
    inputs.push_back(info == nullptr ? Tensor() : Tensor::zeros(info->dtype, info->shape));
    if (inputs.back().defined() && inputs.back().numel() != 0) fill(inputs.back(), random);
  }
  for (int i = 0; i < 2; ++i) session.run(inputs);
  session.reset_states();
  session.run(inputs);
  if (!session.program().states.empty()) run_from_states(session, inputs, random);
}

// False when they would be too large.
bool fill_constants(Program& program) {
  int64_t total = 0;
  for (Program& body : program.bodies)
    if (!fill_constants(body)) return false;
  for (ProgramTensor& tensor : program.tensors) {
    if (!tensor.is_constant()) continue;
    const int64_t bytes = tensor.numel() * static_cast<int64_t>(size_of(tensor.dtype));
    total += bytes;
    if (total > kMostConstantBytes) return false;
    tensor.data = Tensor::zeros(tensor.dtype, tensor.shape);
    for (int64_t i = 0; i < bytes; ++i)
      tensor.data.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
  }
  return true;
}

}  // namespace

void run_program(Program program, uint32_t seed) {
  if (count_ops(program) > kMostOps) return;
  std::mt19937 random(seed);
  Session session(std::move(program), {.memory_limit = kMemory, .loop_limit = kMostRounds});
  run_at_shapes_of(session, session.program(), random);
  if (session.program().symbols.empty()) return;
  SymbolValues least;
  for (const ShapeSymbol& symbol : session.program().symbols) least[symbol.name] = symbol.min;
  const Program smaller = specialize(session.program(), least);
  if (peak_bytes(smaller) <= kMemory) run_at_shapes_of(session, smaller, random);
}

void run_artifact(std::span<const std::byte> bytes) {
  try {
    run_program(load_program(bytes), seed_of(bytes));
  } catch (const Error&) {
  }
}

void run_program_text(const std::string& text) {
  try {
    Program program = program_from_json_text(text, "fuzz");
    if (!fill_constants(program)) return;
    try {
      verify(program);
    } catch (const InternalError&) {  // load_program makes an Error of it
      return;
    }
    run_program(std::move(program), seed_of(std::as_bytes(std::span(text))));
  } catch (const Error&) {
  }
}

uint32_t seed_of(std::span<const std::byte> bytes) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (std::byte byte : bytes) hash = (hash ^ static_cast<uint32_t>(byte)) * 16777619u;
  return hash;
}

}  // namespace octet::fuzz
