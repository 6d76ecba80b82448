// Reads golden folders (tests/oracle/README.md), and compares the results of Octet with those of
// torchao.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <nlohmann/json.hpp>

#include "annotate/prepare/prepare.h"
#include "core/graph/graph.h"

namespace octet::test {

using Json = nlohmann::ordered_json;

struct GoldenCase {
  std::filesystem::path folder;
  Json meta;  // case.json

  std::string name() const { return folder.filename().string(); }
  Json json(const std::string& file) const;
  bool peer_failed() const { return !meta.at("peer_error").is_null(); }
  std::vector<c10::IValue> example() const;
  std::vector<std::vector<c10::IValue>> calibration() const;
  double tolerance(const std::string& key) const {
    return meta.at("tolerance").at(key).get<double>();
  }
};

// The cases whose names start with `prefix`, in order; empty (with a message on stderr) when
// OCTET_GOLDEN_DIR is unset.
std::vector<GoldenCase> golden_cases(const std::string& prefix);

// Each of these functions returns the differences, one a line; empty when equal.

// Compares the structure: targets, which value is observed for which consumer, groups (up to
// numbering) and each group's observer.
std::vector<std::string> compare_prepared(const ObservedGraph& observed, const GoldenCase& golden);
// Compares scales, zero points, ranges, searched ranges and histograms of the calibrated observers.
// Requires that compare_prepared found no difference.
std::vector<std::string> compare_qparams(const ObservedGraph& observed, const GoldenCase& golden);
// Compares the structure, q/dq arguments, and the bytes of quantized constants.
std::vector<std::string> compare_converted(const Graph& converted, const GoldenCase& golden);
// files: "quantized_out", or "reference_out" for the integer reference representation.
std::vector<std::string> compare_outputs(const std::vector<c10::IValue>& outputs,
                                         const GoldenCase& golden,
                                         const std::string& files = "quantized_out");

// All steps: prepare with `quantizer` in compat mode, calibrate, convert, run. Stops at the
// first step that differs.
std::vector<std::string> compare_flow(const GoldenCase& golden, Quantizer& quantizer);

}  // namespace octet::test
