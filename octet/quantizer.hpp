// Includes what a quantizer needs: the interface, specs and their observers, patterns and rules,
// opaque parts and their hooks, and the registry.
//
//   #include "octet/quantizer.hpp"
//
//   class Npu : public octet::Quantizer { ... };
//
// A library for --library also includes tools/extension.h.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/observer_choices.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observers/observer.h"
#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "core/pattern/pattern.h"
#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/common/source_partitions.h"
#include "quantizers/compose/composable_quantizer.h"
#include "quantizers/compose/declared_quantizer.h"
#include "quantizers/compose/opaque_quantizer.h"
#include "quantizers/registry.h"
