// The .octet file: its contents, and errors for damaged and hostile files.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "lowering/program/artifact_format.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/program_json.h"
#include "lowering/program/stored_constant.h"
#include "tests/backends/small_programs.h"
#include "tests/fuzz/seed_programs.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Runs the file. Returns the bytes of its outputs, or the message of the Error.
struct Outcome {
  bool ran = false;
  std::string text;
};

Outcome outcome_of(const std::string& file, const LoadOptions& options) {
  try {
    Session session(load_program(bytes_of(file), options), {.memory_limit = 1 << 20});
    std::vector<Tensor> inputs;
    for (int index : session.program().inputs) {
      const ProgramTensor* info = index < 0 ? nullptr : &session.program().tensor(index);
      inputs.push_back(info == nullptr ? Tensor() : Tensor::zeros(info->dtype, info->shape));
    }
    Outcome outcome{true, {}};
    for (const Tensor& tensor : session.run(inputs))
      outcome.text.append(reinterpret_cast<const char*>(tensor.raw()), tensor.nbytes());
    return outcome;
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

size_t header_bytes(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return 8 + static_cast<size_t>(length);
}

// x f32[2, 6] -> a linear layer with a weight of another form -> y f32[2, 4]; on the reference.
Program linear_with(StoredConstant weight) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 6});
  const std::vector<int> inputs = {x, b.constant("w", std::move(weight)), -1};
  b.output(b.op("linear", inputs, "y", DType::kFloat32, {2, 4}));
  return with_one_segment(b.finish(), "reference");
}

// One program for each form of constants in a file: plain, channels-last, two integers in a byte
// with scales and zero points, float16, 3 bits with scales of bfloat16.
std::vector<Program> every_form() {
  Program ordered = small_conv("reference");
  Tensor& filter = ordered.tensors[1].data;
  filter = from_channels_last(as_channels_last(filter));
  StoredConstant nibbles{random_integers(DType::kInt8, {4, 6}, 3, -8, 7),
                         random_floats({4, 2}, 0.01f, 0.1f, 4), random_floats({4, 2}, -2, 2, 5)};
  StoredConstant narrow{random_integers(DType::kInt8, {4, 6}, 3, -4, 3),
                        Tensor::from<float>(DType::kFloat32, {4, 6}, std::vector<float>(24, 0.5f)),
                        Tensor::from<float>(DType::kFloat32, {4, 6}, std::vector<float>(24, 2.0f))};
  return {with_constants(), std::move(ordered), linear_with(std::move(nibbles)),
          linear_with(stored_half(half_constant(random_floats({4, 6})))),
          linear_with(std::move(narrow))};
}

}  // namespace

TEST_CASE("constants of every form are in the file as the layout says", "[backends][artifact]") {
  const std::vector<std::vector<std::string>> keys = {
      {"\"w\":{", "\"w:scale\""},
      {"\"w:channels_last\""},
      {"\"w:i4\"", "\"w:scale\"", "\"w:zero_point\""},
      {"\"w:values\"", "\"F16\""},
      {"\"w:i3\"", "\"w:scale\"", "\"w:zero_point\"", "\"BF16\""}};
  const std::vector<std::string> versions = {"2", "3", "2", "2", "9"};
  const std::vector<Program> programs = every_form();
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string file = artifact_bytes(programs[i]);
    for (const std::string& key : keys[i]) CHECK_THAT(file, Contains(key));
    CHECK_THAT(file, Contains("\"version\":\"" + versions[i] + "\""));
    CHECK(artifact_bytes(load_program(bytes_of(file))) == file);
  }
}

TEST_CASE("an artifact reads back equal and runs the same", "[backends][artifact]") {
  const std::filesystem::path path = temporary_file("round_trip.octet");
  const Program program = with_constants();
  save_program(program, path);
  const Program loaded = load_program(path);
  CHECK(to_text(loaded) == to_text(program));
  CHECK(loaded.tensors[1].qparams == program.tensors[1].qparams);
  CHECK(reinterpret_cast<uintptr_t>(loaded.tensors[1].data.raw()) % 64 == 0);
  CHECK(reinterpret_cast<uintptr_t>(loaded.tensors[2].data.raw()) % 64 == 0);
  const Tensor x = random_integers(DType::kInt8, {2, 5}, 7);
  const Tensor want = Session(program).run({x})[0];
  const Tensor got = Session(loaded).run({x})[0];
  CHECK(std::memcmp(got.raw(), want.raw(), want.nbytes()) == 0);
  std::filesystem::remove(path);
}

TEST_CASE("a file keeps its call spec, whatever it says", "[backends][artifact]") {
  const Program program = with_constants();
  CHECK_THAT(program_bytes(program), !Contains("call_spec"));
  const std::string spec = R"({"in": "}}", )" + std::string(3000, '[');
  const std::string file = program_bytes(program, spec);
  std::string read;
  CHECK(to_text(load_program(bytes_of(file), {.call_spec = &read})) == to_text(program));
  CHECK(read == spec);
}

TEST_CASE("damaged artifacts give one-line errors", "[backends][artifact]") {
  const std::filesystem::path path = temporary_file("damaged.octet");
  save_program(with_constants(), path);
  const std::string good = read_bytes(path);
  const auto error_with = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return error_of([&] { load_program(path, {.verifies_checksum = false}); });
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    return bytes.replace(at, from.size(), to);
  };
  CHECK_THAT(error_with(""), Contains("has 0 bytes, want at least 8"));
  CHECK_THAT(error_with(good.substr(0, 20)), Contains("the file is cut off"));
  CHECK_THAT(error_with("this is a text"), Contains("does not start like an .octet"));
  CHECK_THAT(error_with(good.substr(0, good.size() - 8)), Contains("bytes of data"));
  CHECK_THAT(error_with(std::string(8, '\0')), Contains("not JSON"));
  CHECK_THAT(error_with(replaced("\"version\":\"2\"", "\"version\":\"0\"")),
             Contains("has format version 0, want 1 to 9"));
  CHECK_THAT(error_with(replaced("\"format\":\"octet\"", "\"format\":\"tensr\"")),
             Contains("holds tensors but no program"));
  CHECK_THAT(error_with(replaced("\"dtype\":\"I8\"", "\"dtype\":\"U8\"")),
             Contains("dtype or shape differ"));
  CHECK_THAT(error_with(replaced("\\\"outputs\\\":[3]", "\\\"outputs\\\":[9]")),
             Contains("contradicts itself"));
  CHECK_THAT(error_with(replaced("\\\"macs\\\":0", "\\\"macs\\\":{")), Contains("malformed"));
  CHECK_THAT(error_of([&] { load_program("/nonexistent/x.octet"); }), Contains("cannot be opened"));
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { load_program(path); }),
             Contains("is not a file; give what `octet lower` wrote"));
  CHECK_THAT(error_of([&] { save_program(with_constants(), "/nonexistent/x.octet"); }),
             Contains("cannot be written"));
  std::filesystem::remove(path);
}

TEST_CASE("the checksum is XXH64, whatever parts it gets", "[backends][artifact]") {
  const auto checksum_of = [](const std::string& text, size_t part) {
    Checksum checksum;
    for (size_t i = 0; i < text.size(); i += part)
      checksum.add(bytes_of(text).subspan(i, std::min(part, text.size() - i)));
    return checksum.value();
  };
  CHECK(checksum_of("", 1) == 0xEF46DB3751D8E999u);
  CHECK(checksum_of("abc", 3) == 0x44BC2CF5AD770999u);
  std::string text;
  for (int i = 0; i < 203; ++i) text += static_cast<char>(i * 7);
  for (size_t part : {1, 3, 31, 32, 33, 100, 203})
    CHECK(checksum_of(text, part) == checksum_of(text, 203));
}

TEST_CASE("the same program gives the same file, twice and after reading it",
          "[backends][artifact]") {
  for (const Program& program : {two_segments(), with_constants(), small_conv("reference")}) {
    const std::string file = artifact_bytes(program);
    CHECK(artifact_bytes(program) == file);
    CHECK(artifact_bytes(load_program(bytes_of(file))) == file);
  }
}

TEST_CASE("scales read back as the same floats, in few digits", "[backends][artifact]") {
  Program program = with_constants();
  std::vector<float>& scales = program.tensors[1].qparams->scale;
  for (uint32_t bits : {0x3DCCCCCDu, 0x3A83126Fu, 0x00000001u, 0x7F7FFFFFu, 0x3F800001u,
                        0x33D6BF95u, 0x3EAAAAABu, 0x38D1B717u}) {
    std::memcpy(&scales[bits % scales.size()], &bits, sizeof(bits));
    const std::string file = artifact_bytes(program);
    CHECK(load_program(bytes_of(file)).tensors[1].qparams->scale == scales);
  }
  TensorQParams& of_input = *program.tensors[0].qparams;
  of_input.scale = {0.1f};
  const std::string file = artifact_bytes(program);
  CHECK_THAT(file, Contains("\\\"scale\\\":[0.1]"));
  CHECK(load_program(bytes_of(file)).tensors[0].qparams == of_input);
}

TEST_CASE("scales and zero points of slices are in the data, zero points only when there are some",
          "[backends][artifact]") {
  Program program = with_constants();
  const std::string without = artifact_bytes(program);
  CHECK_THAT(without, Contains("\"w:scale\"") && !Contains("w:zero_point") &&
                          Contains("\\\"qparams\\\":{\\\"axis\\\":0}"));
  TensorQParams& qparams = *program.tensors[1].qparams;
  qparams.zero_point = {0, -128, 127, 1};
  std::string file = artifact_bytes(program);
  CHECK_THAT(file, Contains("\"w:zero_point\""));
  CHECK(load_program(bytes_of(file)).tensors[1].qparams == qparams);
  const size_t at = file.find(std::string("\0\0\0\0\x80\xff\xff\xff\x7f\0\0\0", 12));
  REQUIRE(at != std::string::npos);
  file[at + 5] = 0x7f;
  CHECK_THAT(outcome_of(file, {.verifies_checksum = false}).text,
             Contains("constant w: has zero point -32896, which does not fit int8"));
}

TEST_CASE("files of format version 1, with all scales in the header, still load",
          "[backends][artifact]") {
  const Program program = with_constants();
  const std::string now = artifact_bytes(program);
  nlohmann::json header = nlohmann::json::parse(now.substr(8, header_bytes(now) - 8));
  header["__metadata__"] = {
      {"format", "octet"}, {"version", "1"}, {"program", to_json_text(program)}};
  header.erase("w:scale");
  std::string text = header.dump();
  text.resize((text.size() + 71) / 64 * 64 - 8, ' ');
  const uint64_t length = text.size();
  const std::string before =
      std::string(reinterpret_cast<const char*>(&length), 8) + text + now.substr(header_bytes(now));
  CHECK(load_program(bytes_of(before)).tensors[1].qparams == program.tensors[1].qparams);
  CHECK(outcome_of(before, {}).text == outcome_of(now, {}).text);
}

TEST_CASE("an artifact loads from memory, aligned or not", "[backends][artifact]") {
  const std::string file = artifact_bytes(small_conv("reference"));
  const std::string want = outcome_of(file, {}).text;
  for (size_t shift : {0, 1, 8}) {
    const Tensor memory = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(file.size() + shift)});
    std::memcpy(memory.raw() + shift, file.data(), file.size());
    const Program program = load_program({memory.raw() + shift, file.size()});
    const std::byte* constant = program.tensors[1].data.raw();
    CHECK((constant >= memory.raw() && constant < memory.raw() + memory.nbytes()) == (shift == 0));
    CHECK(to_text(program) == to_text(small_conv("reference")));
  }
  CHECK_THAT(error_of([] { load_program(std::span<const std::byte>()); }),
             Contains("artifact: memory: has 0 bytes, want at least 8"));
}

TEST_CASE("a changed byte of an artifact is found, or changes nothing", "[backends][artifact]") {
  for (const Program& program : every_form()) {
    const std::string good = artifact_bytes(program);
    const Outcome want = outcome_of(good, {});
    REQUIRE(want.ran);
    int unnoticed = 0;
    for (size_t i = 0; i < good.size(); ++i)
      for (int bit = i < header_bytes(good) ? 0 : 7; bit < 8; ++bit) {
        std::string bytes = good;
        bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
        const Outcome outcome = outcome_of(bytes, {});
        if (outcome.ran && outcome.text != want.text)
          FAIL(fmt::format("bit {} of byte {} of {} went unnoticed", bit, i, good.size()));
        unnoticed += outcome.ran;
      }
    // the letters of the key "checksum": without it, the file is older than checksums
    CHECK(unnoticed <= 8 * 8);
  }
}

TEST_CASE("a changed byte of the header never crashes, checksum or not", "[backends][artifact]") {
  std::vector<Program> programs = every_form();
  programs.push_back(two_segments());
  for (const Program& program : programs) {
    const std::string good = artifact_bytes(program);
    int refused = 0;
    for (size_t i = 0; i < header_bytes(good); ++i)
      for (int change : {0x01, 0x80, static_cast<unsigned char>(good[i]) ^ '9',
                         static_cast<unsigned char>(good[i]) ^ '-'}) {
        std::string bytes = good;
        bytes[i] = static_cast<char>(bytes[i] ^ change);
        refused += !outcome_of(bytes, {.verifies_checksum = false}).ran;
      }
    CHECK(refused > 1000);
  }
}

TEST_CASE(
    "programs with every op run on every backend that takes them, and survive a changed header",
    "[backends][artifact]") {
  const std::vector<fuzz::SeedProgram> seeds = fuzz::seed_programs();
  CHECK(seeds.size() >= 7);
  for (const fuzz::SeedProgram& seed : seeds) {
    const std::string good = artifact_bytes(seed.program);
    const Outcome want = outcome_of(good, {});
    INFO(seed.name << ": " << want.text);
    REQUIRE(want.ran);
    for (size_t i = 8; i < header_bytes(good); i += 7) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 6)));
      outcome_of(bytes, {.verifies_checksum = false});
    }
  }
}

TEST_CASE("an artifact cut off anywhere is refused", "[backends][artifact]") {
  for (const Program& program : every_form()) {
    const std::string good = artifact_bytes(program);
    for (bool verifies : {true, false})
      for (size_t size = 0; size < good.size(); ++size)
        if (outcome_of(good.substr(0, size), {.verifies_checksum = verifies}).ran)
          FAIL(fmt::format("{} of {} bytes ran", size, good.size()));
  }
}

TEST_CASE("sizes and numbers that a hostile file claims are refused by name",
          "[backends][artifact]") {
  const std::string good = artifact_bytes(with_constants());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    bytes.replace(at, from.size(), to);
    const uint64_t length = header_bytes(good) - 8 + to.size() - from.size();
    std::memcpy(bytes.data(), &length, sizeof(length));
    return outcome_of(bytes, {.verifies_checksum = false}).text;
  };
  CHECK_THAT(with("\\\"shape\\\":[2,5]", "\\\"shape\\\":[2147483649,5]"),
             Contains("shape of tensor x"));
  CHECK_THAT(with("\\\"shape\\\":[2,5]", "\\\"shape\\\":[-2,5]"), Contains("shape of tensor x"));
  CHECK_THAT(with("\\\"shape\\\":[2,5]", "\\\"shape\\\":[18446744073709551615,5]"),
             Contains("want an integer"));
  CHECK_THAT(with("\\\"shape\\\":[2,5]", "\\\"shape\\\":[2000000000,2000000000]"),
             Contains("shape of tensor x"));
  CHECK_THAT(with("\\\"shape\\\":[2,5]", "\\\"shape\\\":[200000000,5]"),
             Contains("bytes at once, want at most 1048576"));
  CHECK_THAT(with("\"shape\":[4,5]", "\"shape\":[4,500]"), Contains("dtype or shape differ"));
  CHECK_THAT(with("\"data_offsets\":[64,80]", "\"data_offsets\":[-64,80]"),
             Contains("are not two positive integers"));
  CHECK_THAT(with("\"data_offsets\":[64,80]", "\"data_offsets\":[18446744073709551600,80]"),
             Contains("lies at 18446744073709551600..80"));
  CHECK_THAT(with("\\\"zero_point\\\":[3]", "\\\"zero_point\\\":[300]"),
             Contains("zero point 300 of tensor x"));
  CHECK_THAT(
      with("\\\"macs\\\":0", "\\\"macs\\\":" + std::string(100, '[') + std::string(100, ']')),
      Contains("nested deeper than 16"));
  CHECK_THAT(with("\\\"axis\\\":0}", "\\\"axis\\\":2}"),
             Contains("constant w: has its scales along axis 2 of 2"));
  CHECK_THAT(with("\\\"axis\\\":0}", "\\\"axis\\\":1}"),
             Contains("constant w:scale: dtype or shape differ"));
  CHECK_THAT(with("\"w:scale\"", "\"w:scole\""), Contains("constant w:scale: is missing"));
  CHECK_THAT(
      with("\"format\"", "\"f\":" + std::string(100, '[') + std::string(100, ']') + ",\"format\""),
      Contains("its header is not JSON"));
}
