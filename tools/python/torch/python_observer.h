// Passes observers between Python and C++. Those written in Python (torchao's, or with its
// interface) are wrapped: a call with a tensor observes it, and calculate_qparams() returns
// (scales, zero points). Octet's own are octet.Observer.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "annotate/annotation/qparams.h"
#include "annotate/annotation/quantizer.h"
#include "tools/python/torch/graph_view.h"

namespace octet::python {

// Registers the observer that `make()` returns and gives its name for specs, valid until
// forget_observers(). is_per_channel: whether ch_axis has a meaning. Needs the GIL.
std::string name_observer(nanobind::object make, bool is_per_channel);

void forget_observers();

// Converts (scales, zero points) from Python to tensors. subject: names the source in errors. Needs
// the GIL.
DerivedQParams qparams_from(nanobind::handle given, const std::string& subject);

// (scales, zero points) as tensors. Needs the GIL.
nanobind::tuple tensors_of(const QParams& qparams);

// The observers by place, as a dict for prepare_obs_or_fq_callback of Python; and what that made of
// the dict: an octet.Observer or a spec for each place, which is unobserved where there is none.
// Need the GIL.
nanobind::dict dict_of(const ObserverMap& observers, const std::shared_ptr<Scope>& scope);
void take_observers(const nanobind::dict& changed, const std::shared_ptr<Scope>& scope,
                    ObserverMap& observers);

// Adds octet.Observer to the module.
void bind_observers(nanobind::module_& module);

}  // namespace octet::python
