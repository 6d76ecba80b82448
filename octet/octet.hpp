// Includes what most programs need to quantize a model, lower it and run it: reading and writing
// programs, quantizers, prepare, calibrate and convert, lowering, backends and sessions.
//
//   #include "octet/octet.hpp"
//
//   octet::Report report;
//   auto quantizer = octet::make_quantizer("xnnpack");
//   octet::ObservedGraph observed =
//       octet::prepare_pt2e(octet::read_pt2("model.pt2"), *quantizer, report);
//
// Needs LibTorch. Programs that only run .octet files include backends/runtime/session.h, or
// octet.h from C. Training, comparison and accuracy passes have other headers.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observers/observer.h"
#include "annotate/prepare/prepare.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "core/pt2/tensor_file.h"
#include "core/pt2/writer.h"
#include "core/text/text.h"
#include "lowering/lower.h"
#include "lowering/program/artifact.h"
#include "quantizers/registry.h"
