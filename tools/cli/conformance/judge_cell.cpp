#include "tools/cli/conformance/judge_cell.h"

#include <chrono>

#include "core/base/error.h"

namespace octet::conformance {

CellResult judge_cell(const std::string& name, const std::string& kind,
                      const std::function<void(CellResult& result)>& run) {
  const auto start = std::chrono::steady_clock::now();
  CellResult result;
  result.name = name;
  result.kind = kind;
  try {
    run(result);
  } catch (const Error& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.stage() == "conformance" ? error.without_stage() : error.what();
  } catch (const std::exception& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.what();
  }
  if (result.passed()) result.program.clear();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace octet::conformance
