// Processes in a build without MPI: this one.
#include "core/base/error.h"
#include "tools/cli/processes/processes.h"

namespace octet {

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

}  // namespace octet
