// Small programs, files and messages for tests of sessions, artifacts and the C interface. Needs no
// LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "lowering/program/program.h"

namespace octet {

// x [2, 3] -> exp -> neg -> y, one reference segment per op.
Program two_segments();
// x i8[2, 5] -> a linear layer with a constant weight, one of whose scales is tiny -> y i8[2, 4];
// on the reference.
Program with_constants();
// x i8[1, 4, 6, 6] -> conv -> max_pool -> y, on the backend.
Program small_conv(const std::string& backend);
// x u8[1, 16, 8, 8] -> conv -> max_pool -> a second conv, added to a third -> cat with the pooled
// tensor -> mean -> reshape -> linear -> y u8[1, 10], all in u8 and on oneDNN.
Program integer_network();
// small_conv() with the batch open: n from 1 to 16, lowered at 1.
Program open_conv(const std::string& backend);
// x f32[n, 5, 40] quantized at run time per row -> two linears with int8 weights -> their sum,
// quantized per tensor -> a third -> y f32[n, 5, 24]. n from 1 to 16, lowered at 2.
Program open_dynamic_linears(const std::string& backend);
// x f32[n, 6, 24] (u8 with scales where `dtype` says so) -> layer_norm -> its product with itself,
// transposed -> softmax -> times the layer norm -> gelu -> y f32[n, 6, 24]. n from 0 to 16, lowered
// at 2.
Program open_attention(const std::string& backend, DType dtype);
// x f32[n, m], y f32[n, 2*k + 1] -> last = the last column of x, sum = x + x, y; on the reference.
// n from 1 to 8, m from 2 to 9, k from 0 to 5, lowered at 2, 4, 1.
Program open_columns();
// x f32[2, 3] -> sum, last, count, first; on the reference. States: total, which starts as `begin`
// and becomes sum = total + x; last, which becomes x; count i64[], which becomes count + 1; first
// (which starts as `begin`) and second, which are swapped.
Program with_states();
// yes b8[], x f32[2, 3], begin i64[] -> chosen f32[2, 3]: x + x if yes, else -x; count i64[] and
// grown f32[2, 3]: `begin` and x, counted and added to themselves while the count is less than 3;
// sum f32[3] and sums f32[2, 3]: of x's rows, the last and all. Bodies are on the backend.
Program with_bodies(const std::string& backend);

// A path in the folder for temporary files, with the process id in its name.
std::filesystem::path temporary_file(const std::string& name);
std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);
// The program as the bytes of an .octet file.
std::string artifact_bytes(const Program& program);

// The text of the Error that the action throws, or "no Error".
std::string error_of(const std::function<void()>& action);
// What verify() says about the changed program, or "none".
std::string fault_of(Program program, const std::function<void(Program&)>& change);

std::vector<float> floats_of(const Tensor& tensor);

}  // namespace octet
