// All ops that pack the same constant in the same way share one block of packed weights.
#include <cstring>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/kernels/isa.h"
#include "backends/onednn/bytes/pack.h"
#include "backends/onednn/packed.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "tests/backends/scratch_folder.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using namespace octet::onednn;

namespace {

// Counts how often it packs.
class Packer {
 public:
  std::shared_ptr<void> of(const Tensor& constant, const std::string& own) {
    return find_or_pack(constant, {own, {}, {}, 1}, [&] {
      ++count_;
      return PackedBlock{std::make_shared<std::byte>(std::byte{1}), 1};
    });
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

}  // namespace

TEST_CASE("oneDNN: a constant is packed once in each form, for as long as it is in use",
          "[backends][onednn][packed]") {
  const Tensor constant = random_integers(DType::kInt8, {4, 4}), equal = constant.clone();
  Packer packer;
  std::shared_ptr<void> first = packer.of(constant, "a");
  CHECK(packer.of(constant, "a") == first);
  CHECK(packer.count() == 1);
  CHECK(packer.of(constant, "b") != first);  // given back at once
  CHECK(packer.of(equal, "a") != first);     // other memory
  CHECK(packer.count() == 3);
  packer.of(constant, "b");
  CHECK(packer.count() == 4);
  first.reset();
  packer.of(constant, "a");
  CHECK(packer.count() == 5);
}

TEST_CASE("oneDNN: packed weights keep the constant's memory, so that its address means the same",
          "[backends][onednn][packed]") {
  Packer packer;
  std::weak_ptr<Storage> storage;
  std::shared_ptr<void> packed;
  {
    const Tensor constant = random_integers(DType::kInt8, {4, 4});
    storage = constant.storage();
    packed = packer.of(constant, "a");
  }
  CHECK_FALSE(storage.expired());
  packed.reset();
  CHECK(storage.expired());
}

TEST_CASE("oneDNN: what is not contiguous is packed for itself", "[backends][onednn][packed]") {
  const Tensor rows = random_integers(DType::kInt8, {4, 4});
  const Tensor columns(rows.storage(), DType::kInt8, {4, 4}, {1, 4}, 0);
  Packer packer;
  const std::shared_ptr<void> first = packer.of(columns, "a");
  CHECK(packer.of(columns, "a") != first);
}

TEST_CASE(
    "a program runs in several threads at the same time, in a duplicate of the session for each",
    "[backends][session][onednn]") {
  Session session(integer_network());
  const std::vector<Tensor> inputs = {random_integers(DType::kUInt8, {1, 16, 8, 8})};
  const Tensor expected = session.run(inputs)[0];
  std::vector<int> differing(4, 0);
  std::vector<std::thread> threads;
  for (int& count : differing)
    threads.emplace_back([&count, &inputs, &expected, own = session.duplicate()]() mutable {
      for (int i = 0; i < 50; ++i) {
        const Tensor y = own.run(inputs)[0];
        for (int64_t k = 0; k < y.numel(); ++k)
          count += y.data<uint8_t>()[k] != expected.data<uint8_t>()[k];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(differing == std::vector<int>(4, 0));
}

TEST_CASE("packed cache: sessions give the same bits with it, new, used, damaged and out of reach",
          "[backends][onednn][cache]") {
  const Folder folder("cache_session");
  const std::filesystem::path file = temporary_file("cached.octet");
  const std::vector<Tensor> inputs = {random_integers(DType::kUInt8, {1, 16, 8, 8})};
  save_program(integer_network(), file);
  const auto outputs = [&](const std::filesystem::path& cache, std::vector<std::string>& warnings) {
    Session session(load_program(file), SessionOptions{.cache_folder = cache});
    warnings = session.warnings();
    return session.run(inputs)[0];
  };
  std::vector<std::string> none, warnings;
  const Tensor want = outputs("", none);
  const auto check = [&](const std::filesystem::path& cache, size_t more) {
    const Tensor got = outputs(cache, warnings);
    CHECK(std::memcmp(got.raw(), want.raw(), want.nbytes()) == 0);
    CHECK(warnings.size() == none.size() + more);
  };
  check(folder.path(), 0);
  // Below AVX2 products are in floats, whose weights are not kept.
  CHECK(folder.files().size() == (may_use(Isa::kAvx2) ? 1 : 0));
  check(folder.path(), 0);
  for (const std::filesystem::path& kept : folder.files()) {
    std::string bytes = read_bytes(kept);
    bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
    write_bytes(kept, bytes);
    check(folder.path(), 1);
    check(folder.path(), 0);  // rewritten
  }
  write_bytes(file.string() + ".txt", "");
  check(file.string() + ".txt", folder.files().empty() ? 0 : 1);
  std::filesystem::remove(file.string() + ".txt");
  std::filesystem::remove(file);
}

TEST_CASE("packed cache: a block of another size than the kernel needs is not used",
          "[backends][onednn][cache]") {
  const Folder folder("cache_sizes");
  const Tensor constant = random_integers(DType::kInt8, {4, 4});
  int count = 0;
  const auto pack = [&](size_t needed, size_t made) {
    PackedCache cache(folder.path(), "abc", "cpu");
    const PackedCache::Use use(&cache);
    find_or_pack(constant, {"custom", {}, {}, needed}, [&] {
      ++count;
      return PackedBlock{
          std::shared_ptr<std::byte>(new std::byte[made](), std::default_delete<std::byte[]>()),
          made};
    });
    cache.save();
    return cache.warning();
  };
  pack(64, 64);
  CHECK(pack(64, 64).empty());
  CHECK(count == 1);
  CHECK_THAT(pack(128, 128), Catch::Contains("is damaged; the damaged part is rewritten"));
  CHECK(count == 2);
  CHECK(pack(128, 128).empty());
  CHECK(count == 2);
}

namespace {

// What decides where the kernel reads; without weights.
std::vector<int64_t> places_of(const PackedTiles& tiles) {
  std::vector<int64_t> places(tiles.first.begin(), tiles.first.end());
  for (const std::array<int32_t, kMostBin>& bins : tiles.bins)
    places.insert(places.end(), bins.begin(), bins.end());
  for (const auto* lists : {&tiles.order, &tiles.at})
    for (const std::span<const int32_t>& list : *lists)
      places.insert(places.end(), list.begin(), list.end());
  return places;
}

}  // namespace

TEST_CASE("packed cache: any tile in a wrong place is packed again", "[backends][onednn][cache]") {
  if (find_tile_kernels() == nullptr) return;
  ByteConvShape shape;
  shape.groups = 2, shape.channels = 8, shape.outputs = 40;
  shape.kernel = {1, 3, 3};
  const Tensor weights = random_integers(DType::kInt8, {80, 8, 3, 3});
  const Folder folder("cache_tiles");
  const auto pack = [&] {
    PackedCache cache(folder.path(), "abc", "cpu");
    const PackedCache::Use use(&cache);
    const std::vector<int64_t> places =
        places_of(pack_tiles(shape, weights, {.highest = 255, .usual = 0}));
    cache.save();
    return places;
  };
  const std::vector<int64_t> want = pack();
  const std::string file = read_bytes(folder.files()[0]);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const nlohmann::json entries = nlohmann::json::parse(file.substr(16, length)).at("entries");
  REQUIRE(entries.size() == 1);
  const std::string key = entries.begin().key();
  const size_t begin = 16 + length, size = entries.at(key).at("size");
  // There are fewer bytes than these before the weights.
  const size_t front = std::min(size, 64 + want.size() * 8);
  for (size_t at = 0; at + 4 <= front; at += 4)
    for (const int32_t wrong : {-1, 1000, 0x7fffffff}) {
      const std::shared_ptr<std::byte> block(new std::byte[size],
                                             std::default_delete<std::byte[]>());
      std::memcpy(block.get(), file.data() + begin, size);
      std::memcpy(block.get() + at, &wrong, sizeof(wrong));
      std::filesystem::remove(folder.files()[0]);
      PackedCache cache(folder.path(), "abc", "cpu");
      cache.add(key, {block, size});
      cache.save();
      CAPTURE(at, wrong);
      if (pack() != want) FAIL_CHECK("wrong places are used");
    }
}
