// Packed weights in a file: outputs are the same with it, and without it there is at most a
// warning.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <catch2/catch.hpp>

#include "lowering/program/packed_cache.h"
#include "tests/backends/scratch_folder.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace {

PackedBlock block_of(const std::string& text) {
  PackedBlock block{std::shared_ptr<std::byte>(new std::byte[text.size() + 1],
                                               std::default_delete<std::byte[]>()),
                    text.size()};
  std::memcpy(block.bytes.get(), text.data(), text.size());
  return block;
}

bool any(const PackedBlock&) { return true; }

std::string text_of(const std::optional<PackedBlock>& block) {
  return block ? std::string(reinterpret_cast<const char*>(block->bytes.get()), block->size)
               : "nothing";
}

void save_two(const std::filesystem::path& folder, const std::string& made_for = "this CPU") {
  PackedCache cache(folder, "abc", made_for);
  cache.add("first", block_of("one"));
  cache.add("second", block_of(std::string(200, 'x')));
  cache.save();
  REQUIRE(cache.warning().empty());
}

}  // namespace

TEST_CASE("packed cache: what was saved is found by the same program, CPU and libraries, and grows",
          "[backends][cache]") {
  const Folder folder("cache_grows");
  save_two(folder.path());
  {
    PackedCache cache(folder.path(), "abc", "this CPU");
    CHECK(text_of(cache.find("first", any)) == "one");
    CHECK(text_of(cache.find("third", any)) == "nothing");
    CHECK(reinterpret_cast<uintptr_t>(cache.find("second", any)->bytes.get()) % 64 == 0);
    cache.add("third", block_of(""));
    cache.save();
    cache.add("fourth", block_of("four"));
    cache.save();
    CHECK(text_of(cache.find("second", any)) == std::string(200, 'x'));
    CHECK(cache.warning().empty());
  }
  PackedCache cache(folder.path(), "abc", "this CPU");
  CHECK(text_of(cache.find("first", any)) == "one");
  CHECK(text_of(cache.find("second", any)) == std::string(200, 'x'));
  CHECK(text_of(cache.find("third", any)).empty());
  CHECK(text_of(cache.find("fourth", any)) == "four");
  CHECK(text_of(PackedCache(folder.path(), "abd", "this CPU").find("first", any)) == "nothing");
  CHECK(text_of(PackedCache(folder.path(), "abc", "that CPU").find("first", any)) == "nothing");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("packed cache: a file of another CPU under this one's name is not used",
          "[backends][cache]") {
  const Folder folder("cache_other");
  save_two(folder.path(), "that CPU");
  const std::filesystem::path own = PackedCache(folder.path(), "abc", "this CPU").path();
  std::filesystem::rename(folder.files()[0], own);
  PackedCache cache(folder.path(), "abc", "this CPU");
  CHECK(text_of(cache.find("first", any)) == "nothing");
  CHECK_THAT(cache.warning(), Contains("was made for \"that CPU\", want this CPU"));
}

TEST_CASE("packed cache: of a damaged file nothing wrong is used, whichever byte it is",
          "[backends][cache]") {
  const Folder folder("cache_damaged");
  save_two(folder.path());
  const std::filesystem::path path = folder.files()[0];
  const std::string whole = read_bytes(path);
  const auto check = [&](const std::string& bytes, size_t place) {
    write_bytes(path, bytes);
    PackedCache cache(folder.path(), "abc", "this CPU");
    const std::string first = text_of(cache.find("first", any)),
                      second = text_of(cache.find("second", any));
    const bool is_right = (first == "one" || first == "nothing") &&
                          (second == std::string(200, 'x') || second == "nothing");
    const bool is_told = (first == "nothing" || second == "nothing") == !cache.warning().empty();
    CAPTURE(place, first, second, cache.warning());
    if (!is_right || !is_told) FAIL_CHECK("a byte, or the end, of the file");
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    check(damaged, i);
  }
  for (size_t size = 1; size < whole.size(); ++size) check(whole.substr(0, size), size);
  PackedCache cache(folder.path(), "abc", "this CPU");
  cache.add("first", block_of("one"));
  cache.save();
  CHECK(text_of(PackedCache(folder.path(), "abc", "this CPU").find("first", any)) == "one");
}

TEST_CASE("packed cache: a folder that cannot be written is one warning", "[backends][cache]") {
  const std::filesystem::path file = temporary_file("cache_no_folder");
  write_bytes(file, "a file");
  PackedCache cache(file / "below", "abc", "this CPU");
  for (int i = 0; i < 2; ++i) {
    cache.add("first", block_of("one"));
    cache.save();
  }
  CHECK_THAT(
      cache.warning(),
      Contains("cannot be written: Not a directory; programs are packed again at each start"));
  std::filesystem::remove(file);
}

TEST_CASE("packed cache: a block that does not fit is packed again", "[backends][cache]") {
  const Folder folder("cache_unfit");
  save_two(folder.path());
  PackedCache cache(folder.path(), "abc", "this CPU");
  const auto has_four = [](const PackedBlock& block) { return block.size == 4; };
  CHECK(text_of(cache.find("first", has_four)) == "nothing");
  CHECK_THAT(cache.warning(), Contains("is damaged; the damaged part is rewritten"));
}

TEST_CASE("packed cache: its folder and file are this user's alone", "[backends][cache]") {
  const auto mode_of = [](const std::filesystem::path& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  const Folder folder("cache_own");
  const mode_t before = ::umask(0);
  save_two(folder.path());
  ::umask(before);
  const std::filesystem::path file = folder.files()[0];
  CHECK(mode_of(folder.path()) == 0700);
  CHECK((mode_of(file) & 022) == 0);
}

TEST_CASE("packed cache: what others may write is not used, and nothing is written there",
          "[backends][cache]") {
  const Folder folder("cache_others");
  save_two(folder.path());
  const std::filesystem::path file = folder.files()[0];
  const auto first = [&](std::string* warning) {
    PackedCache cache(folder.path(), "abc", "this CPU");
    const std::string text = text_of(cache.find("first", any));
    *warning = cache.warning();
    return text;
  };
  std::string warning;
  CHECK(first(&warning) == "one");
  CHECK(warning.empty());
  const std::string bytes = read_bytes(file);
  for (const mode_t mode : {0777, 0770, 01777}) {
    ::chmod(folder.path().c_str(), mode);
    PackedCache cache(folder.path(), "abc", "this CPU");
    CHECK(text_of(cache.find("first", any)) == "nothing");
    CHECK_THAT(cache.warning(), Contains("the folder may be written by others, want one that only "
                                         "this user may write; programs are packed again"));
    cache.add("third", block_of("three"));
    cache.save();
    CHECK(read_bytes(file) == bytes);
  }
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(file.c_str(), 0664);
  CHECK(first(&warning) == "nothing");
  CHECK_THAT(warning, Contains("the file may be written by others; it is rewritten"));
  std::filesystem::rename(file, folder.path() / "real");
  std::filesystem::create_symlink("real", file);
  ::chmod((folder.path() / "real").c_str(), 0600);
  CHECK(first(&warning) == "nothing");
  if (::geteuid() != 0) return;
  std::filesystem::remove(file);
  std::filesystem::rename(folder.path() / "real", file);
  REQUIRE(::chown(file.c_str(), 12345, 0) == 0);
  CHECK(first(&warning) == "nothing");
  CHECK_THAT(warning, Contains("the file belongs to another user; it is rewritten"));
  REQUIRE(::chown(folder.path().c_str(), 12345, 0) == 0);
  CHECK(first(&warning) == "nothing");
  CHECK_THAT(warning, Contains("the folder belongs to another user"));
}
