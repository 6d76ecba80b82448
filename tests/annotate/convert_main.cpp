// Quantizes the oracle's custom-rule cases and writes them, for check_converted.py: octet_convert_rules OUT.
// Writes OUT/<case>.pt2; a case whose peer failed is left out. Needs OCTET_GOLDEN_DIR.
#include <filesystem>
#include <iostream>

#include "annotate/calibrate.h"
#include "annotate/convert.h"
#include "core/pt2_reader.h"
#include "core/pt2_writer.h"
#include "support/golden.h"
#include "support/rule_quantizer.h"

int main(int argc, char** argv) {
  using namespace octet;
  if (argc != 2) return 2;
  try {
    std::filesystem::create_directories(argv[1]);
    for (const test::GoldenCase& golden : test::golden_cases("cus_")) {
      if (golden.peer_failed()) continue;
      test::RuleQuantizer quantizer(golden.meta.at("quantizer").at("rules"));
      Report report;
      ObservedGraph observed = prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report);
      calibrate(observed, golden.calibration());
      write_pt2(convert_pt2e(std::move(observed), {}, report), std::filesystem::path(argv[1]) / (golden.name() + ".pt2"));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
