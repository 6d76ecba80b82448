// Float constants stored as integers: all forms of blocks, 4 bits, movement, artifacts and damaged
// ones.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/base/half.h"
#include "lowering/program/artifact.h"
#include "lowering/program/blocks.h"
#include "lowering/program/stored_constant.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace {

// [8, 12] in groups of 4, with values of 4, 3 or 2 bits when `high` is 7, 3 or 1.
StoredConstant grouped(int64_t high, DType dtype = DType::kInt8) {
  const int64_t low = dtype == DType::kInt8 ? -high - 1 : 0;
  return {random_integers(dtype, {8, 12}, 3, low, high), random_floats({8, 3}, 0.01f, 0.1f, 4),
          random_floats({8, 3}, -2, 2, 5)};
}

std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

// x [2, 12] -> linear with a stored weight.
Program linear_program(StoredConstant weight) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 12});
  const int w = b.constant("w", std::move(weight));
  b.output(b.op("linear", {x, w, -1}, "y", DType::kFloat32, {2, 8}));
  Program program = with_one_segment(b.finish(), "reference");
  program.backend = "reference";
  return program;
}

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("octet_test_" + std::to_string(::getpid()) + "_" + name);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string error_with(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  try {
    load_program(path, {.verifies_checksum = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("runs of blocks meet each element once, with the number of its block",
          "[backends][stored]") {
  const std::vector<int64_t> shape = {4, 6, 8};
  for (const std::vector<int64_t>& blocks : {std::vector<int64_t>{1, 1, 1},
                                             {4, 1, 1},
                                             {1, 6, 1},
                                             {1, 1, 8},
                                             {4, 6, 1},
                                             {4, 6, 2},
                                             {2, 3, 4},
                                             {2, 1, 4},
                                             {1, 3, 1},
                                             {4, 6, 8}}) {
    std::vector<int64_t> block_of(192, -1);
    for_each_block_run(shape, blocks, [&](int64_t first, int64_t count, int64_t block) {
      for (int64_t i = first; i < first + count; ++i) {
        CHECK(block_of[static_cast<size_t>(i)] == -1);
        block_of[static_cast<size_t>(i)] = block;
      }
    });
    for (int64_t i = 0; i < 192; ++i) {
      const int64_t a = i / 48 * blocks[0] / 4, b = i / 8 % 6 * blocks[1] / 6,
                    c = i % 8 * blocks[2] / 8;
      CHECK(block_of[static_cast<size_t>(i)] == (a * blocks[1] + b) * blocks[2] + c);
    }
  }
  int calls = 0;
  for_each_block_run({0, 3}, {1, 1}, [&](int64_t, int64_t, int64_t) { ++calls; });
  CHECK(calls == 0);
  for_each_block_run({}, {}, [&](int64_t first, int64_t count, int64_t block) {
    CHECK((first == 0 && count == 1 && block == 0));
    ++calls;
  });
  CHECK(calls == 1);
}

TEST_CASE("a stored constant expands as (value - zero point) * scale", "[backends][stored]") {
  for (DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16}) {
    const StoredConstant stored = grouped(100, dtype);
    const std::vector<float> got = values_of(expand(stored));
    for (size_t i = 0; i < got.size(); ++i) {
      int32_t value = 0;
      std::memcpy(&value, stored.values.raw() + i * size_of(dtype), size_of(dtype));
      if (dtype == DType::kInt8) value = static_cast<int8_t>(value);
      if (dtype == DType::kInt16) value = static_cast<int16_t>(value);
      const size_t block = i / 12 * 3 + i % 12 / 4;
      CHECK(got[i] == (static_cast<float>(value) - stored.zero_point.data<float>()[block]) *
                          stored.scale.data<float>()[block]);
    }
  }
}

TEST_CASE("a stored constant moves as its elements do", "[backends][stored]") {
  const StoredConstant stored = grouped(100);
  const StoredConstant moved = permuted(stored, {1, 0});
  CHECK(moved.scale.shape() == std::vector<int64_t>{3, 8});
  const std::vector<float> before = values_of(expand(stored)), after = values_of(expand(moved));
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 12; ++j) CHECK(after[j * 8 + i] == before[i * 12 + j]);
  const std::optional<StoredConstant> wider = reshaped(stored, {8, 1, 12, 1});
  REQUIRE(wider);
  CHECK(wider->scale.shape() == std::vector<int64_t>{8, 1, 3, 1});
  CHECK(values_of(expand(*wider)) == before);
  CHECK_FALSE(reshaped(stored, {96}));
}

TEST_CASE("four-bit values are stored two per byte", "[backends][stored]") {
  const std::vector<int8_t> odd = {-8, 7, -1, 0, 3};
  const Tensor values = Tensor::from<int8_t>(DType::kInt8, {5}, odd);
  const Tensor bytes = pack_bits(values, 4);
  CHECK(bytes.numel() == 3);
  CHECK(bytes.data<uint8_t>()[0] == 0x78);
  const Tensor back = unpack_bits(bytes, 4, DType::kInt8, {5});
  CHECK(std::memcmp(back.raw(), values.raw(), 5) == 0);
  CHECK(describe(grouped(7)) == "4-bit i8 in 8x3 blocks");
  CHECK(describe(grouped(15, DType::kUInt8)) == "4-bit u8 in 8x3 blocks");
  CHECK(describe(grouped(16, DType::kUInt8)) == "u8 in 8x3 blocks");
}

TEST_CASE("values of 3 and 2 bits follow each other, from the lowest bit on",
          "[backends][stored]") {
  const std::vector<int8_t> some = {1, -4, 3, -1, 0, 2, -2};  // 001 100 011 111 000 010 110
  const Tensor values = Tensor::from<int8_t>(DType::kInt8, {7}, some);
  const Tensor bytes = pack_bits(values, 3);
  REQUIRE(bytes.numel() == 3);
  CHECK(bytes.data<uint8_t>()[0] == 0b11'100'001);
  CHECK(bytes.data<uint8_t>()[1] == 0b0'000'111'0);
  CHECK(bytes.data<uint8_t>()[2] == 0b000'110'01);
  for (DType dtype : {DType::kInt8, DType::kUInt8})
    for (int bits : {2, 3, 4})
      for (int64_t count : {0, 1, 5, 8, 31}) {
        const int64_t high = (int64_t{1} << (dtype == DType::kInt8 ? bits - 1 : bits)) - 1;
        const Tensor given =
            random_integers(dtype, {count}, 3, dtype == DType::kInt8 ? -high - 1 : 0, high);
        const Tensor packed = pack_bits(given, bits);
        CHECK(packed.numel() == packed_size(count, bits));
        const Tensor back = unpack_bits(packed, bits, dtype, {count});
        CHECK((count == 0 || std::memcmp(back.raw(), given.raw(), back.nbytes()) == 0));
      }
  CHECK(describe(grouped(3)) == "3-bit i8 in 8x3 blocks");
  CHECK(describe(grouped(1)) == "2-bit i8 in 8x3 blocks");
  CHECK(describe(grouped(7, DType::kUInt8)) == "3-bit u8 in 8x3 blocks");
}

TEST_CASE("scales and zero points take the first type that represents each exactly",
          "[backends][stored]") {
  const auto type_of = [](float first, int64_t count = 20) {
    std::vector<float> reals(static_cast<size_t>(count), 2.0f);
    reals[0] = first;
    const Tensor given = Tensor::from<float>(DType::kFloat32, {count}, reals);
    const StoredConstant stored{Tensor::zeros(DType::kInt8, {count}), narrowed(given), Tensor()};
    CHECK(std::memcmp(stored.scales().raw(), given.raw(), given.nbytes()) == 0);
    return stored.scale.dtype();
  };
  CHECK(type_of(-128) == DType::kInt8);
  CHECK(type_of(255) == DType::kUInt8);
  CHECK(type_of(1 + 0x1p-10f) == DType::kFloat16);
  CHECK(type_of(0x1p-30f) == DType::kBFloat16);
  CHECK(type_of(-0.0f) == DType::kBFloat16);
  CHECK(type_of(0.1f) == DType::kFloat32);
  CHECK(type_of(INFINITY) == DType::kFloat32);
  CHECK(type_of(0.5f, 16) == DType::kFloat32);  // a file pads so few to 64 bytes
}

TEST_CASE("an artifact keeps stored constants small and reads them back equal",
          "[backends][stored]") {
  const std::filesystem::path path = temporary_file("stored.octet");
  StoredConstant narrow = grouped(3);
  for (Tensor* numbers : {&narrow.scale, &narrow.zero_point})
    for (float& number : std::span(numbers->data<float>(), 24))
      number = bfloat_to_float(float_to_bfloat(number));
  const std::string no_version = "\"version\":\"2\"", version = "\"version\":\"9\"";
  for (const auto& [weight, entry] :
       {std::pair{grouped(100), "\"w:values\""}, std::pair{grouped(7), "\"w:i4\""},
        std::pair{grouped(15, DType::kUInt8), "\"w:u4\""}, std::pair{narrow, "\"w:i3\""},
        std::pair{grouped(1), "\"w:i2\""}, std::pair{grouped(7, DType::kUInt8), "\"w:u3\""}}) {
    const Program program = linear_program(weight);
    save_program(program, path);
    const Program loaded = load_program(path);
    CHECK(to_text(loaded) == to_text(program));
    REQUIRE(loaded.tensors[1].stored);
    CHECK(values_of(constant_data(loaded.tensors[1])) ==
          values_of(constant_data(program.tensors[1])));
    const Tensor x = random_floats({2, 12});
    CHECK(values_of(Session(loaded).run({x})[0]) == values_of(Session(program).run({x})[0]));
    CHECK_THAT(bytes_of(path), Contains(entry));
    CHECK_THAT(bytes_of(path), Contains(weight.bits() < 4 ? version : no_version));
    CHECK((weight.bits() != 3 || loaded.tensors[1].stored->packed.numel() == 36));
    const bool is_narrow = weight.scale.raw() == narrow.scale.raw();
    CHECK((loaded.tensors[1].stored->scale.dtype() == DType::kBFloat16) == is_narrow);
    CHECK((loaded.tensors[1].stored->zero_point.dtype() == DType::kBFloat16) == is_narrow);
  }
  std::filesystem::remove(path);
}

TEST_CASE("an artifact keeps float16 constants", "[backends][stored]") {
  const std::filesystem::path path = temporary_file("half.octet");
  const Tensor real = random_floats({8, 12});
  const Program program = linear_program(stored_half(half_constant(real)));
  CHECK(describe(*program.tensors[1].stored) == "f16");
  const std::vector<float> half = values_of(constant_data(program.tensors[1])),
                           full = values_of(real);
  for (size_t i = 0; i < full.size(); ++i) CHECK(half[i] == Approx(full[i]).epsilon(0.0005));
  CHECK(values_of(expand(permuted(*program.tensors[1].stored, {1, 0})))[1] == half[12]);
  CHECK(reshaped(*program.tensors[1].stored, {96})->values.shape() == std::vector<int64_t>{96});
  save_program(program, path);
  const Program loaded = load_program(path);
  CHECK(to_text(loaded) == to_text(program));
  CHECK(values_of(constant_data(loaded.tensors[1])) == half);
  std::filesystem::remove(path);
}

TEST_CASE("an embedding reads the rows of its stored table, and a stored constant can be an output",
          "[backends][stored]") {
  const std::vector<int64_t> chosen = {6, 0, 6, 3};
  StoredConstant packed = grouped(3);
  packed.packed = pack_bits(packed.values, packed.packed_bits = 3);
  for (const StoredConstant& table :
       {grouped(100), grouped(7), packed, grouped(100, DType::kUInt16),
        stored_half(half_constant(random_floats({8, 12})))}) {
    ProgramBuilder b;
    const int weight = b.constant("table", table);
    const int indices = b.input("indices", DType::kInt64, {4});
    b.output(b.op("embedding", {weight, indices}, "y", DType::kFloat32, {4, 12}));
    Program program = with_one_segment(b.finish(), "reference");
    program.outputs.push_back(weight);
    const std::vector<Tensor> y =
        Session(program).run({Tensor::from<int64_t>(DType::kInt64, {4}, chosen)});
    const std::vector<float> whole = values_of(expand(table)), rows = values_of(y.at(0));
    for (size_t i = 0; i < rows.size(); ++i)
      CHECK(rows[i] == whole[static_cast<size_t>(chosen[i / 12]) * 12 + i % 12]);
    CHECK(values_of(y.at(1)) == whole);
  }
}

TEST_CASE("damaged stored constants give one-line errors", "[backends][stored]") {
  const std::filesystem::path path = temporary_file("stored_damaged.octet");
  save_program(linear_program(grouped(100)), path);
  const std::string good = bytes_of(path);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    return bytes.replace(at, from.size(), to);
  };
  const std::string subject = "artifact: " + path.string() + ": constant ";
  CHECK(error_with(path, replaced("\"shape\":[8,3]", "\"shape\":[8,5]")) ==
        subject + "w:scale: has 96 bytes, want 160; the file is damaged");
  CHECK(error_with(path, replaced("\"w:values\"", "\"w:valuez\"")) ==
        subject + "w:values: is missing or has an unknown dtype; the file is damaged");
  CHECK(error_with(path, replaced("\"w:scale\"", "\"w:scald\"")) ==
        subject + "w: its integers have no scales; the file is damaged");
  // other values, but a sound file
  CHECK(error_with(path, replaced("\"dtype\":\"I8\"", "\"dtype\":\"U8\"")) == "no error");
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 7)));
    error_with(path, bytes);  // an Error or none
  }
  std::filesystem::remove(path);
}

TEST_CASE("scales at run time: each block has its own range", "[backends][reference]") {
  const auto run = [](const std::vector<float>& values, Attributes attributes) {
    ProgramBuilder b;
    const int x = b.input("x", DType::kFloat32, {2, 4});
    b.output(b.op("fake_quantize_dynamic", {x}, "y", DType::kFloat32, {2, 4}, {},
                  std::move(attributes)));
    Session session(with_one_segment(b.finish(), "reference"));
    return values_of(session.run({Tensor::from<float>(DType::kFloat32, {2, 4}, values)})[0]);
  };
  const std::vector<float> x = {0, 255, 1.4f, 100, 0, 2.55f, 0.014f, 1};
  const std::vector<float> whole = run(x, {});
  CHECK(whole[2] == Approx(1));
  CHECK(whole[6] == 0);
  const std::vector<float> rows = run(x, {{"blocks", ints({2, 1})}});
  CHECK(rows[6] == Approx(0.01));
  CHECK(rows[7] == Approx(1));
  const Attributes symmetric = {{"mapping", std::string("symmetric")},
                                {"quant_min", int64_t{-127}},
                                {"quant_max", int64_t{127}},
                                {"blocks", ints({2, 2})}};
  CHECK(run({1, 0.3f, 127, 0.6f, 0, 0, -127, 63.4f}, symmetric)[3] == 1);
  CHECK(refusal(
            [] {
              ProgramBuilder b;
              const int x = b.input("x", DType::kFloat32, {2, 4});
              b.output(b.op("fake_quantize_dynamic", {x}, "y", DType::kFloat32, {2, 4}, {},
                            {{"blocks", ints({2, 3})}}));
              return b.finish();
            }(),
            "reference")
            .value_or("") == "y: shape [2, 4] is cut into [2, 3] blocks, want divisors");
}
