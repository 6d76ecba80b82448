// Processes in a build without MPI: this one.
#include "core/base/error.h"
#include "tools/processes/processes.h"

namespace octet {

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

}  // namespace octet
