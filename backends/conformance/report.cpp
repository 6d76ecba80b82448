// Writes the results of cells as text, JSON, JUnit XML and HTML.
#include <map>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backends/conformance/conformance.h"
#include "core/base/json_text.h"

namespace octet::conformance {
namespace {

constexpr Outcome kOutcomes[] = {Outcome::kExact,   Outcome::kTies,  Outcome::kWithin,
                                 Outcome::kRefused, Outcome::kWrong, Outcome::kCrashed};
constexpr Outcome kOutcomesOfQuantizers[] = {Outcome::kPassed, Outcome::kRefused, Outcome::kWrong,
                                             Outcome::kCrashed};

std::span<const Outcome> outcomes_of(const ConformanceOptions& options) {
  return options.quantizer.empty() ? std::span<const Outcome>(kOutcomes) : kOutcomesOfQuantizers;
}

// "xnnpack", "quantizer acme.json on xnnpack"
std::string subject_of(const ConformanceOptions& options) {
  return options.quantizer.empty()
             ? options.backend
             : fmt::format("quantizer {} on {}", options.quantizer, options.backend);
}

using Counts = std::map<Outcome, size_t>;

struct Summary {
  std::vector<std::string> kinds;  // in the order of the cells
  std::map<std::string, Counts> of_kind;
  // per kind, the reasons of refusals and tolerances with their cells
  std::map<std::string, std::map<std::string, size_t>> reasons;
  Counts all;
  std::map<std::string, size_t> left_float;  // kinds of ops, with the number of cells
};

Summary summarize(const std::vector<CellResult>& results) {
  Summary summary;
  for (const CellResult& r : results) {
    if (!summary.of_kind.contains(r.kind)) summary.kinds.push_back(r.kind);
    ++summary.of_kind[r.kind][r.outcome];
    ++summary.all[r.outcome];
    for (const std::string& kind : r.left_float) ++summary.left_float[kind];
    if (r.passed() && !r.detail.empty()) ++summary.reasons[r.kind][r.detail];
  }
  return summary;
}

std::string counts_text(Counts counts, const ConformanceOptions& options) {
  std::string text;
  for (Outcome outcome : outcomes_of(options))
    if (counts[outcome] != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[outcome], name_of(outcome));
  return text;
}

// "float, though xnnpack has them in 8 bits: sigmoid (4 cells), softmax (1 cell)"
std::string left_float_text(const Summary& summary, const ConformanceOptions& options) {
  std::string text;
  for (const auto& [kind, count] : summary.left_float)
    text += fmt::format("{}{} ({} cell{})", text.empty() ? "" : ", ", kind, count,
                        count == 1 ? "" : "s");
  return text.empty()
             ? ""
             : fmt::format("float, though {} has them in 8 bits: {}", options.backend, text);
}

std::string command_for(const CellResult& r, const ConformanceOptions& options) {
  std::string name;
  for (char c : r.name) name += c == '.' ? "\\." : std::string(1, c);
  const std::string quantizer =
      options.quantizer.empty() ? "" : fmt::format(" --quantizer {}", options.quantizer);
  return fmt::format("octet conformance{} --backend {} --seed {} --filter '^{}$'{}", quantizer,
                     options.backend, options.seed, name, options.repeated_options);
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    switch (c) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      default:
        // XML has no place for control characters
        safe += static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return safe;
}

}  // namespace

std::string to_text(const std::vector<CellResult>& results, const ConformanceOptions& options) {
  const Summary summary = summarize(results);
  std::string text;
  for (const std::string& kind : summary.kinds)
    text += fmt::format("{:<22} {}\n", kind, counts_text(summary.of_kind.at(kind), options));
  for (const CellResult& r : results)
    if (!r.passed())
      text += fmt::format("\n{}: {}: {}\n{}\n  {}\n", r.name, name_of(r.outcome), r.detail,
                          r.program, command_for(r, options));
  if (!summary.left_float.empty()) text += left_float_text(summary, options) + "\n";
  return text + fmt::format("{} cells of {}: {}\n", results.size(), subject_of(options),
                            counts_text(summary.all, options));
}

std::string to_json_text(const std::vector<CellResult>& results,
                         const ConformanceOptions& options) {
  const Summary summary = summarize(results);
  nlohmann::ordered_json all = {{"backend", options.backend}, {"seed", options.seed}};
  if (!options.quantizer.empty()) all["quantizer"] = options.quantizer;
  for (Outcome outcome : outcomes_of(options))
    all[name_of(outcome)] = summary.all.contains(outcome) ? summary.all.at(outcome) : 0;
  for (const CellResult& r : results) {
    nlohmann::ordered_json cell = {
        {"cell", r.name},           {"op", r.kind},       {"outcome", name_of(r.outcome)},
        {"difference", r.greatest}, {"detail", r.detail}, {"seconds", r.seconds}};
    if (!r.left_float.empty()) cell["left_float"] = r.left_float;
    if (!r.passed()) {
      cell["program"] = r.program;
      cell["command"] = command_for(r, options);
    }
    all["cells"].push_back(std::move(cell));
  }
  return dump_json(all, 1, false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_junit_xml(const std::vector<CellResult>& results,
                         const ConformanceOptions& options) {
  Counts counts = summarize(results).all;
  double seconds = 0;
  for (const CellResult& r : results) seconds += r.seconds;
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"octet conformance {}\" "
      "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n",
      escaped(subject_of(options)), results.size(), counts[Outcome::kWrong],
      counts[Outcome::kCrashed], counts[Outcome::kRefused], seconds);
  for (const CellResult& r : results) {
    xml += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", escaped(r.kind),
                       escaped(r.name), r.seconds);
    if (r.outcome == Outcome::kRefused)
      xml += fmt::format("><skipped message=\"{}\"/></testcase>\n", escaped(r.detail));
    else if (!r.passed())
      xml += fmt::format("><{0} message=\"{1}\">{2}\n{3}</{0}></testcase>\n",
                         r.outcome == Outcome::kCrashed ? "error" : "failure", escaped(r.detail),
                         escaped(r.program), escaped(command_for(r, options)));
    else
      xml += "/>\n";
  }
  return xml + "</testsuite>\n";
}

std::string to_html(const std::vector<CellResult>& results, const ConformanceOptions& options) {
  const Summary summary = summarize(results);
  std::string html = fmt::format(
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Conformance of {0}</title>"
      "<style>body{{font:14px sans-serif;margin:2em}}td,th{{padding:2px 10px;text-align:left;"
      "vertical-align:top}}tr:nth-child(even){{background:#f4f4f4}}.bad{{color:#b00}}</style>"
      "<h1>Conformance of {0}</h1><p>{1} cells: {2}</p><table><tr><th>op",
      escaped(subject_of(options)), results.size(), counts_text(summary.all, options));
  for (Outcome outcome : outcomes_of(options)) html += "<th>" + name_of(outcome);
  html += "<th>reasons</tr>\n";
  for (const std::string& kind : summary.kinds) {
    Counts counts = summary.of_kind.at(kind);
    html += "<tr><td>" + escaped(kind);
    for (Outcome outcome : outcomes_of(options))
      html += fmt::format("<td>{}", counts[outcome] == 0 ? "" : std::to_string(counts[outcome]));
    html += "<td>";
    if (summary.reasons.contains(kind))
      for (const auto& [reason, count] : summary.reasons.at(kind))
        html += fmt::format("{} ({})<br>", escaped(reason), count);
    html += "</tr>\n";
  }
  html += "</table><p>" + escaped(left_float_text(summary, options)) + "</p>\n";
  for (const CellResult& r : results)
    if (!r.passed())
      html += fmt::format("<h2 class=\"bad\">{}: {}</h2><p>{}</p><pre>{}\n{}</pre>\n",
                          escaped(r.name), name_of(r.outcome), escaped(r.detail),
                          escaped(r.program), escaped(command_for(r, options)));
  return html + "</html>\n";
}

}  // namespace octet::conformance
