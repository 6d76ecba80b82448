// torch.save files: reads what LibTorch and Python write, with strides, and what Octet writes.
#include <catch2/catch.hpp>

#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "core/base/error.h"
#include "core/pt2/archive.h"
#include "core/pt2/archive_fixture.h"
#include "core/pt2/reader.h"
#include "core/pt2/tensor_file.h"

namespace octet::test_tensor_file {
using octet::testing::Scratch;

namespace {

// models/core/<name>.pt: written by torch.save in make_models.py.
std::filesystem::path tensor_path(const std::string& name) {
  return octet::testing::model_path("net").parent_path() / (name + ".pt");
}

std::string error_of(const std::filesystem::path& path) {
  try {
    read_inputs(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a saved tuple of tensors and numbers is read", "[core][tensor_file]") {
  const std::vector<c10::IValue> values = read_inputs(tensor_path("mixed"));
  REQUIRE(values.size() == 6);
  CHECK(values[0].toTensor().sizes() == at::IntArrayRef({2, 3}));
  CHECK(values[0].toTensor()[1][2].item<float>() == 5.0f);
  CHECK(values[1].toInt() == 3);
  CHECK(values[2].toDouble() == 0.25);
  CHECK(values[3].toBool());
  CHECK(values[4].isNone());
  CHECK(values[5].toStringRef() == "text");
}

TEST_CASE("strides, channels-last and shared storages come back as saved", "[core][tensor_file]") {
  const std::vector<c10::IValue> values = read_inputs(tensor_path("strided"));
  CHECK(values.at(0).toTensor().strides() == at::IntArrayRef({1, 6}));
  CHECK(values.at(0).toTensor()[5][1].item<float>() == 11.0f);
  CHECK(values.at(1).toTensor().storage_offset() == 3);
  CHECK(values.at(1).toTensor()[1].item<float>() == 8.0f);
  CHECK(values.at(2).toTensor().is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(values.at(0).toTensor().storage().data() == values.at(1).toTensor().storage().data());
}

TEST_CASE("the bits for a conjugate and a sign belong to the elements", "[core][tensor_file]") {
  const at::Tensor z = at::complex(at::arange(6.0f), at::arange(6.0f) - 2), w = z.conj(),
                   x = at::arange(6.0f);
  REQUIRE(at::imag(w).is_neg());
  const c10::IValue tuple = c10::ivalue::Tuple::create({w, at::_neg_view(x)});
  const std::vector<char> bytes = torch::jit::pickle_save(tuple);
  Scratch scratch;
  octet::testing::write_bytes(scratch / "given.pt", {bytes.data(), bytes.size()});
  write_outputs(scratch / "written.pt", {w, at::imag(w)});
  for (const auto& [name, second] : {std::pair("given.pt", -x), std::pair("written.pt", 2 - x)}) {
    const std::vector<c10::IValue> values = read_inputs(scratch / name);
    CHECK_FALSE(values.at(0).toTensor().is_conj());
    CHECK(at::equal(values[0].toTensor(), w.resolve_conj()));
    CHECK_FALSE(values.at(1).toTensor().is_neg());
    CHECK(at::equal(values[1].toTensor(), second));
  }
}

TEST_CASE("a data set is read batch by batch", "[core][tensor_file]") {
  BatchReader reader(tensor_path("batches"));
  CHECK(reader.size() == 3);
  int count = 0;
  while (!reader.done()) {
    const std::vector<c10::IValue> batch = reader.next();
    REQUIRE(batch.size() == 2);
    CHECK(batch[0].toTensor()[0].item<float>() == static_cast<float>(count++));
  }
  CHECK(count == 3);
  reader.rewind();
  CHECK_FALSE(reader.done());
}

TEST_CASE("outputs that were written are read again", "[core][tensor_file]") {
  Scratch scratch;
  const at::Tensor base = at::arange(12, at::kFloat).view({3, 4});
  write_outputs(scratch / "y.pt",
                {base, base.t(), base.select(0, 1), at::empty({0, 3}), 7, c10::IValue()});
  const std::vector<c10::IValue> values = read_inputs(scratch / "y.pt");
  REQUIRE(values.size() == 6);
  CHECK(at::equal(values[0].toTensor(), base));
  CHECK(at::equal(values[1].toTensor(), base.t()));
  CHECK(values[1].toTensor().is_contiguous());
  CHECK(at::equal(values[2].toTensor(), base.select(0, 1)));
  CHECK(values[3].toTensor().sizes() == at::IntArrayRef({0, 3}));
  CHECK(values[4].toInt() == 7);
  CHECK(values[5].isNone());
  CHECK(scratch.files() == std::vector<std::string>{"y.pt"});
}

TEST_CASE("a file of something else is an error", "[core][tensor_file]") {
  const std::string dict = error_of(tensor_path("dict"));
  CHECK_THAT(dict, Catch::StartsWith("inputs: " + tensor_path("dict").string() + ": holds a "));
  CHECK_THAT(dict, Catch::Contains("want a torch.save file of a tuple or list of tensors"));
  CHECK_THAT(error_of(tensor_path("module")),
             Catch::Contains("want a torch.save file of a tuple or list"));
  CHECK_THAT(error_of(octet::testing::model_path("net")),
             Catch::Contains("there is no record \"data.pkl\""));
  CHECK_THROWS_WITH(BatchReader(tensor_path("empty_list")),
                    Catch::Contains("holds no batches, got 0, want at least 1"));
  CHECK_THROWS_WITH(BatchReader(tensor_path("mixed")),
                    Catch::Contains("batch 1 is a Int, want a tuple of inputs"));
}

TEST_CASE("missing, truncated and damaged files are errors", "[core][tensor_file]") {
  Scratch scratch;
  CHECK_THAT(error_of(scratch / "none.pt"),
             Catch::EndsWith("none.pt: cannot be read: No such file or directory"));
  const std::string whole = octet::testing::read_bytes(tensor_path("strided"));
  for (size_t length = 1; length < whole.size(); length += whole.size() / 23) {
    octet::testing::write_bytes(scratch / "cut.pt", whole.substr(0, length));
    const std::string error = error_of(scratch / "cut.pt");
    CHECK_THAT(error, Catch::StartsWith("inputs: "));
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("a tensor larger than its record is an error", "[core][tensor_file]") {
  Scratch scratch;
  octet::testing::edit_archive(tensor_path("strided"), scratch / "short.pt",
                               [](const std::string& name, std::string& bytes) {
                                 if (name == "data/0") bytes.resize(8);
                                 return true;
                               });
  CHECK_THAT(error_of(scratch / "short.pt"),
             Catch::Contains("got a storage of 2; the file is damaged"));
}

TEST_CASE("outputs that cannot be written are an error", "[core][tensor_file]") {
  Scratch scratch;
  CHECK_THROWS_WITH(write_outputs(scratch / "missing/y.pt", {1}),
                    Catch::EndsWith("y.pt: cannot be written: No such file or directory"));
}

TEST_CASE("the inputs that a program was exported with are read", "[core][tensor_file]") {
  const auto example_of = [](const std::string& name) {
    return read_example_inputs(read_pt2(octet::testing::model_path(name)));
  };
  const std::optional<std::vector<c10::IValue>> nested = example_of("nested");
  REQUIRE(nested.has_value());
  REQUIRE(nested->size() == 4);  // a tuple, a list and a keyword's dict
  CHECK(nested->at(3).toTensor()[2].item<float>() == Approx(0.182).margin(1e-4));
  const std::optional<std::vector<c10::IValue>> mixed = example_of("symbolic_inputs");
  REQUIRE(mixed.has_value());
  REQUIRE(mixed->size() == 6);
  CHECK((mixed->at(1).toInt() == 2 && mixed->at(3).toBool() && mixed->at(4).isNone()));

  Graph graph = read_pt2(octet::testing::model_path("net"));
  CHECK(read_example_inputs(graph).has_value());
  graph.extras = std::make_shared<ArchiveExtras>(*graph.extras);
  for (auto& [name, bytes] : graph.extras->records)
    if (name == "data/sample_inputs/model.pt") bytes.resize(bytes.size() / 2);
  CHECK_FALSE(read_example_inputs(graph).has_value());
  graph.extras = nullptr;
  CHECK_FALSE(read_example_inputs(graph).has_value());
}

}  // namespace octet::test_tensor_file
