// The only file that includes the headers of XNNPACK and pthreadpool. Both are opened, not linked
// (backends/common/isolated_library.h): in namespace octet::xnnpack their functions are constants
// of the same names that call the opened library. A function that is used is listed in
// function_list.h.
#pragma once

#include <pthreadpool.h>
#include <xnnpack.h>

#ifdef OCTET_XNNPACK_SONAME
#include "backends/common/isolated_library.h"

namespace octet::xnnpack {

#define OCTET_FUNCTION(name) name,
#define OCTET_FUNCTION_OF_TYPE(name, ...) name,
enum class FunctionIndex : size_t {
#include "backends/xnnpack/function_list.h"
  kCount
};
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE

// By FunctionIndex. The first call opens XNNPACK; throws Error.
void* const* function_addresses();

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations"  // newer releases have other names for some, beside these
#define OCTET_FUNCTION(name) OCTET_FUNCTION_OF_TYPE(name, decltype(::name))
#define OCTET_FUNCTION_OF_TYPE(name, ...)                                           \
  inline constexpr auto name =                                                      \
      &OpenedFunction<function_addresses, static_cast<size_t>(FunctionIndex::name), \
                      __VA_ARGS__>::call;
#include "backends/xnnpack/function_list.h"
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE
#pragma GCC diagnostic pop

}  // namespace octet::xnnpack
#endif
