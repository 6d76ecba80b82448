// The cells of `octet conformance --models`: programs from files, as their authors exported them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backends/conformance/conformance.h"
#include "core/graph/graph.h"
#include "tools/cli/conformance/quantizer_cells.h"

namespace octet::conformance {

// The .pt2 files of the folder in alphabetical order. Throws Error("conformance", folder, ...) if
// there are none.
std::vector<std::filesystem::path> model_files(const std::string& folder);

// Runs a file on the backend in this process: lowers it, writes and loads the .octet, and runs it
// on CellInputs at the exported sizes and, where sizes are open, at others. The outputs must have
// at least 20 dB to those of the program in LibTorch. Throws nothing.
CellResult run_file_cell(const std::filesystem::path& file, const ConformanceOptions& options);

// Calls run(). If it throws an Error and no backend could run the graph, as Octet cannot lower it,
// the cell is refused with that reason.
void run_if_lowerable(const Graph& graph, CellResult& result, const std::function<void()>& run);

// "file/resnet18": a cell for each file. The jobs refer to `options`, which must outlive them.
std::vector<Job> file_jobs(const std::string& folder, const ConformanceOptions& options);
// Adds the files of the folder as cells of a quantizer.
void add_files(std::vector<GraphCell>& cells, const std::string& folder);

}  // namespace octet::conformance
