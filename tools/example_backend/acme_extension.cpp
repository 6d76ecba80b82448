// The entry point that `octet --library` calls.
#include "acme_quantizer.h"
#include "tools/extension.h"

OCTET_EXTENSION() { acme::register_all(); }
