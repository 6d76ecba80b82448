// XNNPACK as a library: started once, its refusals as exceptions, its handles as owning types.
#pragma once

#include <pthreadpool.h>
#include <xnnpack.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace octet::xnnpack {

// A call that XNNPACK answered with anything but success: `xnn_define_add2: unsupported parameter`.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Refusal unless `status` is success.
void require_success(xnn_status status, const char* call);

// Starts XNNPACK on first use. Throws Error when it does not run on this machine, or when its thread pool's functions come from
// several libraries (LibTorch carries functions of the same names).
void initialize();

// "xnnpack" -> which library file and which generation of its interface. XNNPACK has no version numbers.
std::map<std::string, std::string> library_versions();

// Files that the thread pool functions resolve to in this process, without repeats: one, when all is well.
std::vector<std::string> thread_pool_libraries();

struct Deleter {
  void operator()(xnn_subgraph_t subgraph) const { xnn_delete_subgraph(subgraph); }
  void operator()(xnn_runtime_t runtime) const { xnn_delete_runtime(runtime); }
  void operator()(pthreadpool_t pool) const { pthreadpool_destroy(pool); }
};
using SubgraphHandle = std::unique_ptr<xnn_subgraph, Deleter>;
using RuntimeHandle = std::unique_ptr<xnn_runtime, Deleter>;
using ThreadPoolHandle = std::unique_ptr<pthreadpool, Deleter>;

}  // namespace octet::xnnpack
