#include "tools/cli/common/library.h"
#include "tools/extension.h"

const char* octet::extension_version() { return OCTET_EXTENSION_VERSION; }
