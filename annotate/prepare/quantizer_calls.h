// Calls the functions of a Quantizer and checks what they did: a Quantizer may edit the graph only
// in transform_for_annotation(). Violations and other exceptions become Errors that name the
// Quantizer.
#pragma once

#include "annotate/annotation/quantizer.h"

namespace octet {

// Lets it look at the program before anything is rewritten (check_model).
void check_by(const Quantizer& quantizer, const Graph& program);

// Runs a user's code that edits the graph. subject, what: 'quantizer "npu"', "its
// transform_for_annotation()". Throws Error(stage, subject, ...) when the graph is broken
// afterwards (core/passes/verify.h), or when a result of a new or changed node has another dtype or
// shape than the op gives. With kTorchao, a changed node may keep the dtype that it had: torchao's
// own rewrites of scalars leave old ones.
void edit_by(const char* stage, const std::string& subject, const std::string& what, Graph& graph,
             const std::function<void()>& edit, Compat compat = Compat::kNone);
void transform_by(Quantizer& quantizer, Graph& graph, Compat compat);

// Annotates and validates. Throws Error("annotate", name, ...) when annotate() edits the graph, or
// annotates a node that is not in it.
void annotate_by(Quantizer& quantizer, Graph& graph, Annotations& annotations, Report& report);

// Lets it change the observers (prepare_obs_or_fq_callback).
void offer_observers(Quantizer& quantizer, const Graph& graph, ObserverMap& observers);

}  // namespace octet
