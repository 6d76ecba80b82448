# Finds what Octet is built on. The virtual environment that tools/setup.sh makes is searched first.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

set(venv ${CMAKE_SOURCE_DIR}/.venv)
if(SKBUILD AND NOT EXISTS ${venv})  # a wheel: the environment that pip builds it in, which `requires` of the pyproject.toml filled
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE venv OUTPUT_STRIP_TRAILING_WHITESPACE)
  cmake_path(SET venv NORMALIZE ${venv}/../../../../..)  # from lib/python3.N/site-packages/nanobind/cmake
endif()
set(OCTET_VENV ${venv} CACHE PATH "Virtual environment with torch and oneDNN")
file(GLOB OCTET_VENV_SITE ${OCTET_VENV}/lib/python3*/site-packages)

# Interface target with the language level, warnings and header-only {fmt} that all targets share.
# {fmt} is header-only everywhere: torch's include folder carries another version of its headers, and header-only keeps each translation
# unit consistent with whichever it sees.
add_library(octet_options INTERFACE)
target_compile_features(octet_options INTERFACE cxx_std_20)
target_include_directories(octet_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/octet>)
target_include_directories(octet_options SYSTEM INTERFACE $<BUILD_INTERFACE:${FMT_INCLUDE_DIR}>)
target_compile_definitions(octet_options INTERFACE FMT_HEADER_ONLY)
# No binary names the folder that it was built in.
target_compile_options(octet_options INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wno-unknown-pragmas -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)

if(OCTET_TORCH)
  if(NOT Torch_DIR AND OCTET_VENV_SITE)
    set(Torch_DIR ${OCTET_VENV_SITE}/torch/share/cmake/Torch)
  endif()
  find_package(Torch 2.13 REQUIRED)
  # TORCH_LIBRARIES drags in flags and includes as plain variables; one interface target keeps them away from the torch-free targets.
  find_package(CLI11 REQUIRED)
  add_library(octet_torch INTERFACE)
  target_link_libraries(octet_torch INTERFACE octet_options "$<BUILD_INTERFACE:${TORCH_LIBRARIES}>" "$<INSTALL_INTERFACE:torch;torch_library;c10>")
endif()

# Without MPI everything works but calibration in several processes, which is refused then.
if(OCTET_TORCH AND OCTET_MPI)
  find_package(MPI COMPONENTS C)
endif()

# What reads and writes ONNX files. Without it there is no `octet export`.
set(OCTET_HAS_ONNX OFF)
if(OCTET_TORCH AND OCTET_ONNX)
  find_program(PROTOBUF_COMPILER protoc)
  find_path(PROTOBUF_INCLUDE_DIR google/protobuf/message_lite.h)
  find_library(PROTOBUF_LITE_LIBRARY protobuf-lite)
  find_library(PROTOBUF_LITE_ARCHIVE libprotobuf-lite.a)
  if(PROTOBUF_COMPILER AND PROTOBUF_INCLUDE_DIR AND PROTOBUF_LITE_LIBRARY)
    set(OCTET_HAS_ONNX ON)
  else()
    message(STATUS "protobuf is not here: the command has no export")
  endif()
endif()

# octet_backend_library(<backend> <file>): the target octet_<backend>_library, to which the caller adds headers and, where the library is linked, itself.
# A shared library is opened at run time (backends/common/isolated_library.h) by the name that its file has inside; an archive is linked.
function(octet_backend_library backend file)
  add_library(octet_${backend}_library INTERFACE)
  string(TOUPPER ${backend} name)
  if(file MATCHES "\\${CMAKE_STATIC_LIBRARY_SUFFIX}$")
    set(OCTET_${name}_OPENED OFF PARENT_SCOPE)
    return()
  endif()
  file(REAL_PATH ${file} real_file)
  cmake_path(GET real_file FILENAME soname)
  if(CMAKE_READELF)
    execute_process(COMMAND ${CMAKE_READELF} -d ${real_file} OUTPUT_VARIABLE dynamic ERROR_QUIET)
    if(dynamic MATCHES "SONAME[^[]*\\[([^]]+)\\]")
      set(soname ${CMAKE_MATCH_1})
    endif()
  endif()
  cmake_path(GET file PARENT_PATH folder)
  set(OCTET_${name}_SONAME ${soname} PARENT_SCOPE)
  # The dlopen of sanitizers does not look into the folders of the binary that calls it.
  set(opened ${soname})
  if(OCTET_FUZZ OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(opened ${folder}/${soname})
  endif()
  target_compile_definitions(octet_${backend}_library INTERFACE $<BUILD_INTERFACE:OCTET_${name}_SONAME="${opened}">)
  # As for libraries that are linked: programs of the build find it in its folder first.
  if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    set(CMAKE_BUILD_RPATH ${CMAKE_BUILD_RPATH} ${folder} PARENT_SCOPE)
  endif()
  set(OCTET_${name}_OPENED ON PARENT_SCOPE)
endfunction()

if(OCTET_ONEDNN)
  if(NOT dnnl_DIR AND EXISTS ${OCTET_VENV}/lib/cmake/dnnl)
    set(dnnl_DIR ${OCTET_VENV}/lib/cmake/dnnl)
  endif()
  find_package(dnnl 3.2 CONFIG REQUIRED)
  get_target_property(file DNNL::dnnl LOCATION)
  octet_backend_library(onednn ${file})
  if(OCTET_ONEDNN_OPENED)
    target_include_directories(octet_onednn_library SYSTEM INTERFACE $<BUILD_INTERFACE:$<TARGET_PROPERTY:DNNL::dnnl,INTERFACE_INCLUDE_DIRECTORIES>>)
  else()
    target_link_libraries(octet_onednn_library INTERFACE DNNL::dnnl)
  endif()
endif()

if(OCTET_XNNPACK)
  find_path(XNNPACK_INCLUDE_DIR xnnpack.h REQUIRED)
  find_library(XNNPACK_LIBRARY XNNPACK REQUIRED)
  find_library(PTHREADPOOL_LIBRARY pthreadpool REQUIRED)
  octet_backend_library(xnnpack ${XNNPACK_LIBRARY})
  target_include_directories(octet_xnnpack_library SYSTEM INTERFACE $<BUILD_INTERFACE:${XNNPACK_INCLUDE_DIR}>)
  if(NOT OCTET_XNNPACK_OPENED)
    target_link_libraries(octet_xnnpack_library INTERFACE ${XNNPACK_LIBRARY} ${PTHREADPOOL_LIBRARY})
  endif()
endif()
