// What needs no MPI: whether there are other processes.
#include "tools/processes/processes.h"

#include <cstdlib>

namespace octet {

bool is_one_of_several() {
  // OpenMPI's mpirun; MPICH's and what follows it.
  constexpr const char* kCounts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (const char* name : kCounts)
    if (const char* count = std::getenv(name)) return std::atol(count) > 1;
  return std::getenv("PMIX_RANK") != nullptr;  // a batch system's launcher, which tells no count
}

}  // namespace octet
