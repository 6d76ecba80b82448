// Makes a Backend and a BackendSupport of a plug-in's table (octet_plugin.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/runtime/octet_plugin.h"
#include "lowering/program/backend.h"

namespace octet {

// A loaded plug-in, with copies of what its table points to.
struct Plugin {
  octet_plugin table{};  // members that the plug-in lacks are 0
  std::string name, version;
  std::string hash;                             // of its file
  std::map<std::string, std::string> versions;  // of the plug-in and its libraries
  std::vector<Tolerance> tolerances;
  std::vector<std::string> kinds;
};

// The key of Program::versions for the hash of a plug-in's file.
std::string hash_key(const std::string& plugin);

class PluginSupport : public BackendSupport {
 public:
  explicit PluginSupport(const Plugin& plugin) : plugin_(plugin) {}  // which must outlive this
  std::string name() const override { return plugin_.name; }
  std::map<std::string, std::string> versions() const override;
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
  TransferCost transfer_cost() const override {
    return {plugin_.table.macs_per_segment, plugin_.table.macs_per_byte};
  }
  std::vector<std::string_view> kinds() const override;
  std::vector<Tolerance> tolerances() const override { return plugin_.tolerances; }

 private:
  const Plugin& plugin_;
};

class PluginBackend : public Backend {
 public:
  explicit PluginBackend(const Plugin& plugin) : plugin_(plugin) {}  // which must outlive this
  std::string name() const override { return plugin_.name; }
  // Without the hash, which need not be that of the program.
  std::map<std::string, std::string> versions() const override { return plugin_.versions; }
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;

 private:
  const Plugin& plugin_;
};

}  // namespace octet
