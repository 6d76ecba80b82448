// Free of torch.
#pragma once

namespace octet {

// CPUs that this process may keep busy: affinity and the control group's quota heeded. At least 1;
// 1 on systems other than Linux.
int usable_cpus();

}  // namespace octet
