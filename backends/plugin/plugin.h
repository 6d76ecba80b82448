// Makes a plug-in of a Backend and a BackendSupport: a shared library that octet.h, octet_runtime
// and `octet --library` load through the C interface of backends/runtime/octet_plugin.h.
//
//   #include "backends/plugin/plugin.h"
//   OCTET_PLUGIN(MyBackend, MySupport, "1.2.0")
//
// Link the library with octet::plugin alone. It gets a copy of the Octet code that the two classes
// use, whose symbols stay local. It needs neither LibTorch nor a symbol of the Octet that loads it.
//
// Both classes have a default constructor. One object of each is made when the plug-in is loaded;
// their const functions may be called from several threads. Exceptions become errors. `accepts`
// gets a program of one op, and `compile` one with the ops of the segment; sizes are fixed.
// Constants are row-major: wants_channels_last_filter and takes_channels_last have no effect. An op
// with a kind or an attribute that this Octet does not know is refused.
#pragma once

#include <memory>

#include "backends/runtime/octet_plugin.h"
#include "lowering/program/backend.h"

namespace octet {

// The functions that make the two halves of a plug-in's backend.
struct PluginMakers {
  std::unique_ptr<Backend> (*make_backend)();
  std::unique_ptr<BackendSupport> (*make_support)();
};

// The body of octet_plugin_entry. Call it for one backend per library. version: "1.2.0", a string
// literal.
const octet_plugin* plugin_table(const PluginMakers& makers, const char* version,
                                 uint32_t host_interface, char* message, size_t capacity);

}  // namespace octet

// Use once per library, outside of namespaces.
#define OCTET_PLUGIN(BackendClass, SupportClass, version)                                     \
  const octet_plugin* octet_plugin_entry(uint32_t host_interface, char* message,              \
                                         size_t capacity) {                                   \
    constexpr octet::PluginMakers kMakers = {                                                 \
        []() -> std::unique_ptr<octet::Backend> { return std::make_unique<BackendClass>(); }, \
        []() -> std::unique_ptr<octet::BackendSupport> {                                      \
          return std::make_unique<SupportClass>();                                            \
        }};                                                                                   \
    return octet::plugin_table(kMakers, version, host_interface, message, capacity);          \
  }
