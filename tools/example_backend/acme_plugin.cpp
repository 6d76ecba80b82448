// The entry point of the plug-in: the command, Python's octet_runtime and octet.h load it.
#include "acme_backend.h"
#include "backends/plugin/plugin.h"

OCTET_PLUGIN(acme::NpuBackend, acme::NpuSupport, "2.0.0")
