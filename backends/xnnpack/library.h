// Wraps XNNPACK: starts it once, turns its refusals into exceptions, and owns its handles.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "backends/xnnpack/functions.h"
#include "core/base/cpus.h"

namespace octet::xnnpack {

// Thrown when a call to XNNPACK fails: `xnn_define_add2: unsupported parameter`.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Refusal unless `status` is success.
void require_success(xnn_status status, const char* call);

// Starts XNNPACK on first use. Throws Error when it does not run on this machine.
void initialize();

// {"xnnpack": "libXNNPACK.so.0 (2022)"}: the library file, and the year of its opened_release().
std::map<std::string, std::string> library_versions();

struct Deleter {
  void operator()(xnn_subgraph_t subgraph) const { xnn_delete_subgraph(subgraph); }
  void operator()(xnn_runtime_t runtime) const { xnn_delete_runtime(runtime); }
  void operator()(xnn_operator_t op) const { xnn_delete_operator(op); }
  // Waits for the pool's threads. A forked child has none of them, so there the pool is leaked.
  void operator()(pthreadpool_t pool) const {
    if (!is_forked_child()) pthreadpool_destroy(pool);
  }
};
using SubgraphHandle = std::unique_ptr<xnn_subgraph, Deleter>;
using RuntimeHandle = std::unique_ptr<xnn_runtime, Deleter>;
using OperatorHandle = std::unique_ptr<xnn_operator, Deleter>;
using ThreadPoolHandle = std::unique_ptr<pthreadpool, Deleter>;

}  // namespace octet::xnnpack
