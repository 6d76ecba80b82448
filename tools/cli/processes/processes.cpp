// Detects other processes, implements what builds on sums, and supports builds without MPI.
#include "tools/cli/processes/processes.h"

#include <cstdlib>

#include "core/base/error.h"

namespace octet {

bool is_one_of_several() {
  // OpenMPI's mpirun; MPICH and its derivatives.
  constexpr const char* kCounts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (const char* name : kCounts)
    if (const char* count = std::getenv(name)) return std::atol(count) > 1;
  return std::getenv("PMIX_RANK") != nullptr;  // a batch system's launcher, which sets no count
}

std::vector<std::string> Processes::share(const std::string& text) {
  if (count_ == 1) return {text};
  std::vector<int64_t> lengths(count_, 0);
  lengths[rank_] = static_cast<int64_t>(text.size());
  sum(std::span<int64_t>(lengths));
  size_t length = 0, own = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (i == rank_) own = length;
    length += static_cast<size_t>(lengths[i]);
  }
  // Sums texts: each process sets its bytes and leaves the others 0, with eight bytes per number.
  // No byte carries into the next.
  constexpr size_t kBytes = sizeof(int64_t);
  std::vector<int64_t> numbers((length + kBytes - 1) / kBytes, 0);
  std::string all(numbers.size() * kBytes, '\0');
  text.copy(all.data() + own, text.size());
  all.copy(reinterpret_cast<char*>(numbers.data()), all.size());
  sum(std::span<int64_t>(numbers));
  std::vector<std::string> texts;
  const char* place = reinterpret_cast<const char*>(numbers.data());
  for (const int64_t size : lengths) {
    texts.emplace_back(place, static_cast<size_t>(size));
    place += size;
  }
  return texts;
}

#ifndef OCTET_MPI

struct Processes::Joined {};

Processes::Processes() {
  if (is_one_of_several())
    throw Error("mpi", "mpirun",
                "this octet was built without MPI; install libopenmpi-dev and build again, or "
                "calibrate parts by hand (--state)");
}

Processes::~Processes() = default;

void Processes::check_others() {}

std::vector<std::string> Processes::gather(const std::function<std::string()>& work) {
  return {work()};
}

void Processes::sum(std::span<double>) {}
void Processes::sum(std::span<float>) {}
void Processes::sum(std::span<int64_t>) {}
void Processes::min(std::span<float>) {}
void Processes::max(std::span<double>) {}

#endif

}  // namespace octet
