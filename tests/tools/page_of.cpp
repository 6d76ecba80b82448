// page_of DATA.json PAGE.html NODE_DATA.json: writes the page and Model Explorer's node data for
// any data, for tests that need no model.
#include <fstream>

#include <nlohmann/json.hpp>

#include "tools/page/page.h"

int main(int count, char** arguments) {
  if (count != 4) return 2;
  std::ifstream in(arguments[1]);
  const nlohmann::ordered_json data = nlohmann::ordered_json::parse(in);
  std::ofstream(arguments[2]) << octet::page_html(data);
  std::ofstream(arguments[3]) << octet::model_explorer_data(data).dump(1) << "\n";
}
