#include "tools/report_html.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<style>
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2em; }
th, td { text-align: left; vertical-align: top; padding: .25em .6em; border-bottom: 1px solid #ddd; }
th { background: #f3f3f3; }
td.name, td.tensor { font-family: monospace; font-size: 13px; overflow-wrap: anywhere; }
tr:target { background: #fff3c4; }
.counts td { font-size: 1.3em; border: 0; }
</style>
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

std::string escaped(const Json& object, const char* key) { return escape(object.at(key).get<std::string>()); }

// "scale 0.0123, zero point 3"; of several: "64 scales 0.001 .. 0.02, zero points 0 .. 3"; or why there is none.
std::string qparams_text(const Json& group) {
  const Json& spec = group.at("spec");
  if (spec.is_object() && spec.value("is_dynamic", false)) return "computed at run time";
  const Json& qparams = group.at("qparams");
  if (qparams.is_null()) return group.at("has_data").get<bool>() ? "no scale" : "not known: no data";
  if (qparams.contains("error")) return "not known: " + qparams.at("error").get<std::string>();
  const std::vector<double> scales = qparams.at("scale");
  const std::vector<double> zero_points = qparams.at("zero_point");
  if (scales.size() == 1 && zero_points.size() == 1) return fmt::format("scale {:.6g}, zero point {:.6g}", scales.front(), zero_points.front());
  if (scales.empty() || zero_points.empty()) return fmt::format("{} scales, {} zero points", scales.size(), zero_points.size());
  const auto [least, largest] = std::minmax_element(scales.begin(), scales.end());
  const auto [first, last] = std::minmax_element(zero_points.begin(), zero_points.end());
  return fmt::format("{} scales {:.6g} .. {:.6g}, zero points {:.6g} .. {:.6g}", scales.size(), *least, *largest, *first, *last);
}

class Page {
 public:
  explicit Page(const Json& report) : report_(report) {
    for (const Json& group : report.at("groups")) groups_[group.at("group").get<size_t>()] = &group;
  }

  std::string run() {
    const std::string model = escaped(report_, "model");
    text_ = kHead;
    text_ += fmt::format("<title>{}</title>\n</head>\n<body>\n<h1>{}</h1>\n<p>Quantized by {}.</p>\n", model, model, escaped(report_, "quantizer"));
    add_counts();
    add_quantized();
    add_float();
    add_notes();
    add_groups();
    return text_ + "</body>\n</html>\n";
  }

 private:
  void add_counts() {
    const Json& summary = report_.at("summary");
    text_ += fmt::format(
        "<table class=\"counts\"><tr><td>{} ops quantized</td><td>{} ops float</td><td>{} groups of tensors with one scale</td>"
        "<td>{} notes</td></tr></table>\n",
        summary.at("quantized_ops").get<size_t>(), summary.at("float_ops").get<size_t>(), summary.at("groups").get<size_t>(),
        summary.at("notes").get<size_t>());
  }

  void begin_table(const char* title, const char* header) {
    text_ += fmt::format("<h2>{}</h2>\n<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n", title, header);
  }
  void end_table() { text_ += "</tbody>\n</table>\n"; }

  void add_quantized() {
    begin_table("Quantized", "<th>Op</th><th>Module</th><th>Rule</th><th>Inputs</th><th>Output</th>");
    for (const Json& op : report_.at("quantized_ops")) {
      std::string inputs;
      for (const Json& input : op.at("inputs")) inputs += tensor_text(input);
      const Json& output = op.at("output");
      text_ += fmt::format(
          "<tr><td class=\"name\">{}<br>{}</td><td class=\"name\">{}</td><td>{}</td><td class=\"tensor\">{}</td><td class=\"tensor\">{}</td></tr>\n",
          escaped(op, "node"), escaped(op, "target"), escaped(op, "module"), escaped(op, "rule"), inputs,
          output.is_null() ? std::string() : tensor_text(output));
    }
    end_table();
  }

  std::string tensor_text(const Json& tensor) const {
    std::string text = fmt::format("<div>{}: {}", escaped(tensor, "tensor"), escaped(tensor.at("spec"), "text"));
    if (tensor.at("group").is_null()) return text + "; not quantized</div>";
    const size_t number = tensor.at("group").get<size_t>();
    return text + fmt::format("; {}; <a href=\"#g{}\">group {}</a></div>", escape(qparams_text(*groups_.at(number))), number, number);
  }

  void add_float() {
    begin_table("Float", "<th>Op</th><th>Module</th><th>Stage</th><th>Reason</th>");
    for (const Json& op : report_.at("float_ops"))
      text_ += fmt::format("<tr><td class=\"name\">{}<br>{}</td><td class=\"name\">{}</td><td>{}</td><td>{}</td></tr>\n", escaped(op, "node"),
                           escaped(op, "target"), escaped(op, "module"), escaped(op, "stage"), escaped(op, "reason"));
    end_table();
  }

  void add_notes() {
    text_ += "<h2>Notes</h2>\n<ul>\n";
    for (const Json& note : report_.at("notes")) text_ += fmt::format("<li>{}</li>\n", escape(note.get<std::string>()));
    text_ += "</ul>\n";
  }

  void add_groups() {
    begin_table("Groups of tensors with one scale", "<th>Group</th><th>Tensors</th><th>Spec</th><th>Range</th><th>Scale</th>");
    for (const Json& group : report_.at("groups")) {
      std::string members;
      for (const Json& member : group.at("members")) members += fmt::format("<div>{}</div>", escape(member.get<std::string>()));
      const size_t number = group.at("group").get<size_t>();
      text_ += fmt::format("<tr id=\"g{}\"><td>{}</td><td class=\"tensor\">{}</td><td class=\"tensor\">{}</td><td>{} .. {}</td><td>{}</td></tr>\n",
                           number, number, members, escaped(group.at("spec"), "text"), group.at("quant_min").dump(), group.at("quant_max").dump(),
                           escape(qparams_text(group)));
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
