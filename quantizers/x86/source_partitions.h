// compat: torchao's notion of where a node came from. Nodes that one call of one module or
// function was decomposed into make a partition. Default exports name the innermost module and a
// few functions; strict ones name every function too. So torchao finds more in strict ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

struct SourcePartition {
  std::vector<Node*> nodes;  // in graph order
  // those that something outside of the partition reads; none when the result is unused
  std::vector<Node*> output_nodes;
};

// sources: as the .pt2 names them, "torch.nn.modules.conv.Conv2d", "torch.conv2d", "add". Ordered
// by the first node of the source, then by their own first node. A module that is called twice
// makes one partition in default exports.
std::vector<SourcePartition> find_source_partitions(const Graph& graph,
                                                    std::span<const std::string> sources);

// Chains of one partition of each list of sources, in which some node reads some node of the one
// before. In the order of the first partition, then of the second, and so on.
using PartitionChain = std::vector<SourcePartition>;
std::vector<PartitionChain> find_partition_chains(
    const Graph& graph, std::span<const std::vector<std::string>> sources);

}  // namespace octet
