#include "tools/quantize/report_html.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "tools/quantize/quality.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --text: #222; --back: #fff; --head: #f3f3f3; --line: #ddd; --mark: #fff3c4; }
@media (prefers-color-scheme: dark) { :root { --text: #ddd; --back: #1b1b1b; --head: #2a2a2a; --line: #444; --mark: #4a4116; } }
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: var(--text); background: var(--back); }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2em; }
th, td { text-align: left; vertical-align: top; padding: .25em .6em; border-bottom: 1px solid var(--line); }
th { background: var(--head); }
thead th { cursor: pointer; }
td.name, td.tensor { font-family: monospace; font-size: 13px; overflow-wrap: anywhere; }
tr:target { background: var(--mark); }
.counts td { font-size: 1.3em; border: 0; }
.quality th { width: 6em; font-weight: normal; }
</style>
)";

// A click on a heading sorts the rows by its column, by number where both cells begin with one; a
// second click turns the order round.
constexpr const char* kSort = R"(<script>
for (const head of document.querySelectorAll("thead th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], column = head.cellIndex, sign = head.dataset.up ? -1 : 1;
  head.dataset.up = sign > 0 ? "1" : "";
  const key = row => row.cells[column].textContent;
  const order = (a, b) => parseFloat(a) - parseFloat(b) || a.localeCompare(b);
  body.append(...[...body.rows].sort((a, b) => sign * order(key(a), key(b))));
};
</script>
)";

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else
      result += c;
  }
  return result;
}

std::string escaped(const Json& object, const char* key) {
  return escape(object.at(key).get<std::string>());
}

// "scale 0.0123, zero point 3"; of several: "64 scales 0.001 .. 0.02, zero points 0 .. 3"; or why
// there is none.
std::string qparams_text(const Json& group) {
  const Json& spec = group.at("spec");
  if (spec.is_object() && spec.value("is_dynamic", false)) return "computed at run time";
  const Json& qparams = group.at("qparams");
  if (qparams.is_null())
    return group.at("has_data").get<bool>() ? "no scale" : "not known: no data";
  if (qparams.contains("error")) return "not known: " + qparams.at("error").get<std::string>();
  const std::vector<double> scales = qparams.at("scale");
  const std::vector<double> zero_points = qparams.at("zero_point");
  if (scales.size() == 1 && zero_points.size() == 1)
    return fmt::format("scale {:.6g}, zero point {:.6g}", scales.front(), zero_points.front());
  if (scales.empty() || zero_points.empty())
    return fmt::format("{} scales, {} zero points", scales.size(), zero_points.size());
  const auto [least, largest] = std::minmax_element(scales.begin(), scales.end());
  const auto [first, last] = std::minmax_element(zero_points.begin(), zero_points.end());
  return fmt::format("{} scales {:.6g} .. {:.6g}, zero points {:.6g} .. {:.6g}", scales.size(),
                     *least, *largest, *first, *last);
}

class Page {
 public:
  explicit Page(const Json& report) : report_(report) {
    for (const Json& group : report.at("groups")) groups_[group.at("group").get<size_t>()] = &group;
  }

  std::string run() {
    const std::string model = escaped(report_, "model");
    text_ = kHead;
    text_ +=
        fmt::format("<title>{}</title>\n</head>\n<body>\n<h1>{}</h1>\n<p>Quantized by {}.</p>\n",
                    model, model, escaped(report_, "quantizer"));
    add_quality();
    add_counts();
    add_quantized();
    add_float();
    add_notes();
    add_groups();
    return text_ + kSort + "</body>\n</html>\n";
  }

 private:
  void add_quality() {
    text_ += "<table class=\"quality\"><tbody>\n";
    for (const auto& [name, text] : quality_rows(report_.at("quality")))
      text_ += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, escape(text));
    text_ += "</tbody></table>\n";
  }

  void add_counts() {
    const Json& summary = report_.at("summary");
    text_ += fmt::format(
        "<table class=\"counts\"><tr><td>{} ops quantized</td><td>{} ops float</td><td>{} groups "
        "of tensors with one scale</td>"
        "<td>{} notes</td></tr></table>\n",
        summary.at("quantized_ops").get<size_t>(), summary.at("float_ops").get<size_t>(),
        summary.at("groups").get<size_t>(), summary.at("notes").get<size_t>());
  }

  void begin_table(const char* title, const char* header) {
    text_ += fmt::format(
        "<h2>{}</h2>\n<div class=\"wide\">\n<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n", title,
        header);
  }
  void end_table() { text_ += "</tbody>\n</table>\n</div>\n"; }

  void add_quantized() {
    begin_table("Quantized",
                "<th>Op</th><th>Module</th><th>Rule</th><th>Inputs</th><th>Output</th>");
    for (const Json& op : report_.at("quantized_ops")) {
      std::string inputs;
      for (const Json& input : op.at("inputs")) inputs += tensor_text(input);
      const Json& output = op.at("output");
      // The ops within a pattern have specs at its ends alone.
      const std::string within = fmt::format("within {}", escaped(op, "rule"));
      if (inputs.empty()) inputs = within;
      text_ += fmt::format(
          "<tr><td class=\"name\">{}<br>{}</td><td class=\"name\">{}</td><td>{}</td><td "
          "class=\"tensor\">{}</td><td class=\"tensor\">{}</td></tr>\n",
          escaped(op, "node"), escaped(op, "target"), escaped(op, "module"), escaped(op, "rule"),
          inputs, output.is_null() ? within : tensor_text(output));
    }
    end_table();
  }

  std::string tensor_text(const Json& tensor) const {
    std::string text =
        fmt::format("<div>{}: {}", escaped(tensor, "tensor"), escaped(tensor.at("spec"), "text"));
    if (tensor.at("group").is_null()) return text + "; not quantized</div>";
    const size_t number = tensor.at("group").get<size_t>();
    return text + fmt::format("; {}; <a href=\"#g{}\">group {}</a></div>",
                              escape(qparams_text(*groups_.at(number))), number, number);
  }

  void add_float() {
    begin_table("Float", "<th>Op</th><th>Module</th><th>Stage</th><th>Reason</th>");
    for (const Json& op : report_.at("float_ops"))
      text_ += fmt::format(
          "<tr><td class=\"name\">{}<br>{}</td><td "
          "class=\"name\">{}</td><td>{}</td><td>{}</td></tr>\n",
          escaped(op, "node"), escaped(op, "target"), escaped(op, "module"), escaped(op, "stage"),
          escaped(op, "reason"));
    end_table();
  }

  void add_notes() {
    text_ += "<h2>Notes</h2>\n<ul>\n";
    for (const char* key : {"notes", "details"})
      for (const Json& note : report_.at(key))
        text_ += fmt::format("<li>{}</li>\n", escape(note.get<std::string>()));
    text_ += "</ul>\n";
  }

  void add_groups() {
    begin_table("Groups of tensors with one scale",
                "<th>Group</th><th>Tensors</th><th>Spec</th><th>Range</th><th>Scale</th>");
    for (const Json& group : report_.at("groups")) {
      std::string members;
      for (const Json& member : group.at("members"))
        members += fmt::format("<div>{}</div>", escape(member.get<std::string>()));
      const size_t number = group.at("group").get<size_t>();
      text_ += fmt::format(
          "<tr id=\"g{}\"><td>{}</td><td class=\"tensor\">{}</td><td "
          "class=\"tensor\">{}</td><td>{} .. {}</td><td>{}</td></tr>\n",
          number, number, members, escaped(group.at("spec"), "text"), group.at("quant_min").dump(),
          group.at("quant_max").dump(), escape(qparams_text(group)));
    }
    end_table();
  }

  const Json& report_;
  std::map<size_t, const Json*> groups_;  // by number
  std::string text_;
};

}  // namespace

std::string report_to_html(const Json& report) { return Page(report).run(); }

}  // namespace octet
