# cmake -DROOT=TREE -DOUTPUT=F.h -P headers_hash.cmake: writes OCTET_HEADERS_HASH, which differs if
# public headers differ, except in // comments and white space. F.h keeps its time if the hash is
# the same.
file(STRINGS ${ROOT}/tools/cmake/public_headers.txt headers REGEX "^[^#<]")
foreach(header ${headers})
  file(READ ${ROOT}/${header} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[ \t\n]+" " " text "${text}")
  string(APPEND all "${header}\n${text}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "// Made by headers_hash.cmake.\n#pragma once\n\n#define OCTET_HEADERS_HASH \"${hash}\"\n")
