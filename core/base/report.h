// Reports why something was or was not done. A refusal is a value, not an exception, and reaches
// the user through the Report.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace octet {

// Accepted, or refused with a reason that completes "node %x stayed float: ...".
class Verdict {
 public:
  static Verdict accept() { return Verdict(true, {}); }
  static Verdict refuse(std::string reason) { return Verdict(false, std::move(reason)); }
  explicit operator bool() const { return accepted_; }
  const std::string& reason() const { return reason_; }

 private:
  Verdict(bool accepted, std::string reason) : accepted_(accepted), reason_(std::move(reason)) {}
  bool accepted_;
  std::string reason_;
};

struct ReportEntry {
  std::string stage;   // "annotate", "prepare", "convert", "lower", ...
  std::string node;    // node name
  std::string target;  // op
  std::string module;  // innermost module path, may be empty
  std::string reason;
};

// Collects what happened to a program: each compute op that stayed float or runs elsewhere, with
// the reason; notes for the user; and details of single layers, which are too many for a terminal.
class Report {
 public:
  void add(ReportEntry entry) { entries_.push_back(std::move(entry)); }
  void note(std::string text) { notes_.push_back(std::move(text)); }
  void detail(std::string text) { details_.push_back(std::move(text)); }
  const std::vector<ReportEntry>& entries() const { return entries_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& details() const { return details_; }

 private:
  std::vector<ReportEntry> entries_;
  std::vector<std::string> notes_;
  std::vector<std::string> details_;
};

}  // namespace octet
