// Includes oneDNN's headers; no other file does. oneDNN is opened, not linked
// (backends/common/isolated_library.h), so its C functions are replaced by constants that call the
// opened library. Its header-only C++ interface is compiled on top of them as octet::dnnl, apart
// from the classes of LibTorch's oneDNN.
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#ifdef OCTET_ONEDNN_SONAME
#include "backends/common/isolated_library.h"

namespace octet::onednn {

#define OCTET_FUNCTION(name) name,
enum class FunctionIndex : size_t {
#include "onednn_function_list.h"
  kCount
};
#undef OCTET_FUNCTION

// Function addresses by FunctionIndex, null where this release lacks the function. The first call
// opens oneDNN; throws Error.
void* const* function_addresses();

#define OCTET_FUNCTION(name)                                                        \
  inline constexpr auto name =                                                      \
      &OpenedFunction<function_addresses, static_cast<size_t>(FunctionIndex::name), \
                      dnnl_unimplemented, decltype(::name)>::call;
#include "onednn_function_list.h"
#undef OCTET_FUNCTION

}  // namespace octet::onednn

namespace octet_dnnl {
#define OCTET_FUNCTION(name) using octet::onednn::name;
#include "onednn_function_list.h"
#undef OCTET_FUNCTION
}  // namespace octet_dnnl
#endif

#define dnnl octet_dnnl
#include <oneapi/dnnl/dnnl.hpp>
#undef dnnl

namespace octet {
namespace dnnl = ::octet_dnnl;
}
