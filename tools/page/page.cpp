#include "tools/page/page.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tools/page/page_sources.h"
#include "tools/page/shorten.h"
#include "tools/page/verdict.h"

namespace octet {
namespace {

using PageJson = nlohmann::ordered_json;

std::string escape_html(std::string_view text) {
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

std::string to_text(const PageJson& data) {
  return data.dump(-1, ' ', false, PageJson::error_handler_t::replace);
}

// Escapes JSON for an element <script>, so that no tag begins or ends in it.
std::string script_text(const std::string& json) {
  std::string result;
  result.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  }
  return result;
}

// The nonce of the page's scripts, which markup that gets in by mistake lacks.
std::string nonce_of(const std::string& json) {
  return std::to_string(std::hash<std::string>{}(json));
}

std::string title_of(const PageJson& data) {
  std::string title = data.value("title", std::string("Octet"));
  // a title may be invalid UTF-8
  return PageJson::parse(to_text(PageJson(std::move(title)))).get<std::string>();
}

}  // namespace

std::string page_html(const nlohmann::ordered_json& data) {
  PageJson shown = shorten(data);
  shown["verdict"] = verdict_of(data);
  const std::string json = to_text(shown);
  const std::string nonce = nonce_of(json);
  const auto replacement_of = [&](std::string_view name) -> std::string {
    if (name == "title") return escape_html(title_of(data));
    if (name == "nonce") return nonce;
    if (name == "data") return script_text(json);
    return std::string(page_source(name));
  };
  std::string page;
  std::string_view rest = page_source("page.html");
  while (true) {
    const size_t begin = rest.find("{{");
    page += rest.substr(0, begin);
    if (begin == std::string_view::npos) return page;
    const size_t end = rest.find("}}", begin);
    page += replacement_of(rest.substr(begin + 2, end - begin - 2));
    rest.remove_prefix(end + 2);
  }
}

namespace {

struct SqnrStep {
  double below;  // dB; larger values count as equal
  const char* back;
  const char* text;
};

// The steps of the page's colours (page.css).
constexpr SqnrStep kSqnrSteps[] = {{10, "#993404", "#ffffff"}, {20, "#d95f0e", "#000000"},
                                   {30, "#fe9929", "#000000"}, {40, "#fec44f", "#000000"},
                                   {50, "#fee391", "#000000"}, {1000, "#ffffd4", "#000000"}};

// errors.KIND.sqnr_db of a node, or null; "inf" counts as the end of the scale.
PageJson sqnr_of(const PageJson& node, const char* kind) {
  const auto errors = node.find("errors");
  if (errors == node.end() || !errors->is_object()) return nullptr;
  const auto error = errors->find(kind);
  if (error == errors->end() || !error->is_object()) return nullptr;
  const PageJson value = error->value("sqnr_db", PageJson(nullptr));
  if (value.is_number()) return value;
  return value.is_string() && value == "inf" ? PageJson(1000) : PageJson(nullptr);
}

PageJson by_status(const PageJson& nodes) {
  PageJson results = PageJson::object();
  for (const PageJson& node : nodes) {
    const std::string status = node.value("status", std::string());
    if (status != "quantized" && status != "float") continue;
    const bool is_float = status == "float";
    results[node.at("name").get<std::string>()] = {
        {"value", status}, {"bgColor", is_float ? "#fe9929" : "#cfe2f3"}, {"textColor", "#000000"}};
  }
  return results;
}

}  // namespace

nlohmann::ordered_json model_explorer_data(const nlohmann::ordered_json& data) {
  const PageJson nodes = data.value("nodes", PageJson::array());
  for (const char* kind : {"accumulated", "isolated", "lowering"}) {
    PageJson results = PageJson::object();
    for (const PageJson& node : nodes)
      if (const PageJson value = sqnr_of(node, kind); !value.is_null())
        results[node.at("name").get<std::string>()] = {{"value", value}};
    if (results.empty()) continue;
    PageJson thresholds = PageJson::array();
    for (const SqnrStep& step : kSqnrSteps)
      thresholds.push_back(
          {{"value", step.below}, {"bgColor", step.back}, {"textColor", step.text}});
    return {{"graph", {{"results", results}, {"thresholds", thresholds}}}};
  }
  return {{"graph", {{"results", by_status(nodes)}}}};
}

}  // namespace octet
