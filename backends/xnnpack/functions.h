// Includes the headers of XNNPACK and pthreadpool; no other file does. Both are opened, not linked
// (backends/common/isolated_library.h): in namespace octet::xnnpack their functions are constants
// of the same names that call the opened library, whatever its release is. function_list.h lists
// the functions in use.
#pragma once

#include <pthreadpool.h>
#include <xnnpack.h>

#include <cstddef>
#include <type_traits>

#ifdef OCTET_XNNPACK_SONAME
#include "backends/common/isolated_library.h"

namespace octet::xnnpack {

#define OCTET_FUNCTION(name) name,
#define OCTET_FUNCTION_OF_TYPE(name, ...) name,
#define OCTET_NEWER_FUNCTION(name, ...) name,
enum class FunctionIndex : size_t {
#include "backends/xnnpack/function_list.h"
  kCount
};
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE
#undef OCTET_NEWER_FUNCTION

// Function addresses by FunctionIndex, null where this release lacks a newer function. The first
// call opens XNNPACK; throws Error.
void* const* function_addresses();

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations"  // newer releases rename some functions and keep the old names
#define OCTET_FUNCTION(name) OCTET_FUNCTION_OF_TYPE(name, decltype(::name))
#define OCTET_FUNCTION_OF_TYPE(name, ...)                                           \
  inline constexpr auto name =                                                      \
      &OpenedFunction<function_addresses, static_cast<size_t>(FunctionIndex::name), \
                      xnn_status_unsupported_parameter, __VA_ARGS__>::call;
#define OCTET_NEWER_FUNCTION(name, ...) OCTET_FUNCTION_OF_TYPE(name, __VA_ARGS__)
#include "backends/xnnpack/function_list.h"
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE
#undef OCTET_NEWER_FUNCTION
#pragma GCC diagnostic pop

}  // namespace octet::xnnpack
#else
// Linked: opened_release() is k2022, so that the newer functions are not called.
namespace octet::xnnpack {
#define OCTET_FUNCTION(name)
#define OCTET_FUNCTION_OF_TYPE(name, ...)
#define OCTET_NEWER_FUNCTION(name, ...) inline std::add_pointer_t<__VA_ARGS__> const name = nullptr;
#include "backends/xnnpack/function_list.h"
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE
#undef OCTET_NEWER_FUNCTION
}  // namespace octet::xnnpack
#endif

namespace octet::xnnpack {

// The releases that this backend distinguishes. XNNPACK has no version numbers; functions that were
// added tell how old the opened library is.
enum class Release {
  k2022,  // February 2022, the oldest, or linked instead of opened
  k2023,  // March 2023: has xnn_define_tanh
  k2024,  // September 2024: has kernels for dynamic rows and all depthwise convolutions of bytes
  k2025,  // March 2025: the operators of dynamic rows are about to change their types
};

Release opened_release();

// Bytes past the end of an input that kernels may read: the greatest XNN_EXTRA_BYTES, that of
// Hexagon; it is 16 on other CPUs.
inline constexpr size_t kExtraBytes = 128;

}  // namespace octet::xnnpack
