// Collects the annotations and the report of a quantizer written in Python.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "annotate/annotation/annotation.h"
#include "core/base/report.h"
#include "tools/python/torch/graph_view.h"

namespace octet::python {

struct AnnotationsView {
  std::shared_ptr<Scope> scope;
  Annotations* annotations;
  bool is_final = false;  // in validate()
};

struct ReportView {
  std::shared_ptr<Scope> scope;
  Report* report;
};

// Adds octet.Annotations and octet.AnnotationReport to the module.
void bind_annotations(nanobind::module_& module);

}  // namespace octet::python
