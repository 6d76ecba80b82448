#include "quantizers/common/source_partitions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace octet {

namespace {

// The origin of a node: the source, and a name that distinguishes its calls.
struct Origin {
  std::string source;
  std::string call;
};

std::optional<Origin> find_recorded_source(const Node& node) {
  const std::map<std::string, std::string>::const_iterator found =
      node.metadata.find("source_fn_stack");
  if (found == node.metadata.end()) return std::nullopt;
  const std::string innermost = found->second.substr(found->second.rfind(';') + 1);
  const size_t comma = innermost.find(',');
  if (comma == std::string::npos) return std::nullopt;
  return Origin{innermost.substr(comma + 1), innermost.substr(0, comma)};
}

// torch_fn is "add_1;method_descriptor.add": the call, and a function without its module.
std::optional<Origin> find_function(const Node& node) {
  const std::map<std::string, std::string>::const_iterator found = node.metadata.find("torch_fn");
  if (found == node.metadata.end()) return std::nullopt;
  const size_t semicolon = found->second.find(';');
  const size_t dot = found->second.find('.', semicolon == std::string::npos ? 0 : semicolon);
  if (semicolon == std::string::npos || dot == std::string::npos) return std::nullopt;
  const std::string function =
      found->second.substr(dot + 1, found->second.find('.', dot + 1) - dot - 1);
  return Origin{function, found->second.substr(0, semicolon)};
}

std::optional<Origin> find_origin(const Node& node, std::span<const std::string> sources) {
  const auto is_wanted = [&](const std::optional<Origin>& origin) {
    return origin && std::ranges::find(sources, origin->source) != sources.end();
  };
  if (node.metadata.contains("source_fn_stack")) {
    std::optional<Origin> recorded = find_recorded_source(node);
    return is_wanted(recorded) ? recorded : std::nullopt;
  }
  if (std::optional<Origin> function = find_function(node); is_wanted(function)) return function;
  const std::vector<ModuleFrame> frames = module_stack(node);
  if (frames.empty()) return std::nullopt;
  std::optional<Origin> module = Origin{frames.back().type, frames.back().path};
  return is_wanted(module) ? module : std::nullopt;
}

bool leaves(const Node& node, const std::vector<Node*>& nodes) {
  const auto is_inside = [&](const Node* user) {
    return std::ranges::find(nodes, user) != nodes.end();
  };
  const std::vector<Value*> outputs = node.outputs();
  return std::ranges::any_of(outputs, [&](const Value* output) {
    return output->is_output() || !std::ranges::all_of(output->users(), is_inside);
  });
}

// The partitions of one link of the chains, and the partition of each node.
struct Link {
  std::vector<SourcePartition> partitions;
  std::unordered_map<const Node*, size_t> index;
};

// Partitions of `link` that read a node of `partition`, in order.
std::set<size_t> readers_of(const SourcePartition& partition, const Link& link) {
  std::set<size_t> readers;
  for (const Node* node : partition.nodes)
    for (const Value* output : node->outputs())
      for (const Node* user : output->users())
        if (const auto found = link.index.find(user); found != link.index.end())
          readers.insert(found->second);
  return readers;
}

void extend(const std::vector<Link>& links, PartitionChain& chain,
            std::vector<PartitionChain>& chains) {
  if (chain.size() == links.size()) {
    chains.push_back(chain);
    return;
  }
  const Link& next = links[chain.size()];
  for (size_t reader : readers_of(chain.back(), next)) {
    chain.push_back(next.partitions[reader]);
    extend(links, chain, chains);
    chain.pop_back();
  }
}

}  // namespace

std::vector<SourcePartition> find_source_partitions(const Graph& graph,
                                                    std::span<const std::string> sources) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<SourcePartition>> by_source;
  std::map<std::pair<std::string, std::string>, size_t> calls;
  for (Node* node : graph.nodes()) {
    const std::optional<Origin> origin = find_origin(*node, sources);
    if (!origin) continue;
    if (!by_source.contains(origin->source)) order.push_back(origin->source);
    std::vector<SourcePartition>& partitions = by_source[origin->source];
    const auto [call, is_new] =
        calls.emplace(std::pair(origin->source, origin->call), partitions.size());
    if (is_new) partitions.emplace_back();
    partitions[call->second].nodes.push_back(node);
  }
  std::vector<SourcePartition> result;
  for (const std::string& source : order)
    for (SourcePartition& partition : by_source[source]) {
      std::ranges::copy_if(partition.nodes, std::back_inserter(partition.output_nodes),
                           [&](const Node* node) { return leaves(*node, partition.nodes); });
      result.push_back(std::move(partition));
    }
  return result;
}

std::vector<PartitionChain> find_partition_chains(
    const Graph& graph, std::span<const std::vector<std::string>> sources) {
  std::vector<Link> links;
  for (const std::vector<std::string>& wanted : sources) {
    Link link;
    link.partitions = find_source_partitions(graph, wanted);
    for (size_t i = 0; i < link.partitions.size(); ++i)
      for (const Node* node : link.partitions[i].nodes) link.index[node] = i;
    links.push_back(std::move(link));
  }
  std::vector<PartitionChain> chains;
  if (links.empty()) return chains;
  for (const SourcePartition& first : links.front().partitions) {
    PartitionChain chain = {first};
    extend(links, chain, chains);
  }
  return chains;
}

}  // namespace octet
