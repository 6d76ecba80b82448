// One observer for each group of edges and values that share one.
#pragma once

#include <memory>
#include <vector>

#include "annotate/annotation/compat.h"
#include "annotate/annotation/sharing.h"
#include "annotate/observers/observer.h"
#include "annotate/prepare/opaque_prepare.h"

namespace octet {

// What the observer nodes are for: calibration, or training, where values of fixed scale are
// fake-quantized.
enum class Purpose { kCalibration, kTraining };

// By group. Throws Error("prepare", ...) as make_observer does, and for derived specs that go in a
// circle or derive from what has no spec.
std::vector<std::shared_ptr<Observer>> make_group_observers(const SharingGroups& groups,
                                                            Purpose purpose, Compat compat);

// Lets the quantizers change the observers (prepare_obs_or_fq_callback). Afterwards a group is what
// has one observer, numbered in the order of the members. Throws Error("prepare", ...) for an
// observer where no spec stands.
void ask_for_observers(const OpaquePrepare& quantizers, const Graph& graph, SharingGroups& groups,
                       std::vector<std::shared_ptr<Observer>>& observers);

}  // namespace octet
