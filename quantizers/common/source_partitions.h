// Finds the origin of nodes as torchao does. The nodes that one call of a module or
// function was decomposed into form a partition. Default exports record the innermost module and a
// few functions; strict exports record every function, so torchao finds more partitions in them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

struct SourcePartition {
  std::vector<Node*> nodes;  // in graph order
  // nodes that something outside of the partition reads; none when the result is unused
  std::vector<Node*> output_nodes;
};

// sources: as named in the .pt2, "torch.nn.modules.conv.Conv2d", "torch.conv2d", "add". Ordered by
// the first node of the source, then by the first node of the partition. In default exports, a
// module that is called twice makes one partition.
std::vector<SourcePartition> find_source_partitions(const Graph& graph,
                                                    std::span<const std::string> sources);

// Finds chains with one partition from each list of sources, in which some node reads a node of the
// previous partition. Ordered by the first partition, then by the second, and so on.
using PartitionChain = std::vector<SourcePartition>;
std::vector<PartitionChain> find_partition_chains(
    const Graph& graph, std::span<const std::vector<std::string>> sources);

}  // namespace octet
