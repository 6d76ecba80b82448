// The only file that includes oneDNN's headers. oneDNN is opened, not linked
// (backends/common/isolated_library.h), so in here its C functions are constants that call the
// opened library. Its C++ interface, which is all in the header, is compiled anew on top of them,
// as octet::dnnl: the classes of LibTorch's oneDNN are others.
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

// By FunctionIndex. The first call opens oneDNN; throws Error.
void* const* function_addresses();

#define OCTET_FUNCTION(name)                                                        \
  inline constexpr auto name =                                                      \
      &OpenedFunction<function_addresses, static_cast<size_t>(FunctionIndex::name), \
                      decltype(::name)>::call;
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
