# Finds the libraries that Octet uses, first in the virtual environment that tools/setup.sh makes.
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

# An interface target with the language level, warnings and {fmt}, which all targets link.
add_library(octet_options INTERFACE)
target_compile_features(octet_options INTERFACE cxx_std_20)
target_include_directories(octet_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/octet>)
target_include_directories(octet_options SYSTEM INTERFACE $<BUILD_INTERFACE:${FMT_INCLUDE_DIR}>)
# {fmt} is used as headers without its library, because torch's include folder has another version,
# which does not fit the library. Compiling its functions in every source would cost 2 seconds each,
# so octet_base and octet_core compile them once (octet_add_fmt). Installed packages, and compilers
# other than GCC, which lack the option, have them in every source.
set(OCTET_FMT_ONCE OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(OCTET_FMT_ONCE ON)
endif()
target_compile_definitions(octet_options INTERFACE $<INSTALL_INTERFACE:FMT_HEADER_ONLY>)
if(NOT OCTET_FMT_ONCE)
  target_compile_definitions(octet_options INTERFACE $<BUILD_INTERFACE:FMT_HEADER_ONLY>)
endif()
# Keeps the build folder's path out of binaries.
target_compile_options(octet_options INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wno-unknown-pragmas -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)

if(OCTET_TORCH)
  if(OCTET_VENV_SITE)
    set(OCTET_LIBTORCH_HINT ${OCTET_VENV_SITE}/torch)
  endif()
  include(tools/cmake/libtorch.cmake)
  find_package(CLI11 REQUIRED)
  add_library(octet_torch INTERFACE)
  target_link_libraries(octet_torch INTERFACE octet_options octet::libtorch)
endif()

# MPI is optional: without it, calibration in several processes is an error.
if(OCTET_TORCH AND OCTET_MPI)
  find_package(MPI COMPONENTS C)
endif()

# Protobuf is optional: without it, there is no `octet export`.
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

# octet_backend_library(<backend> <file>): the target octet_<backend>_library, to which the caller
# adds headers and, if the library is linked, the library. A shared library is opened at run time
# (backends/common/isolated_library.h) by its soname; an archive is linked.
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
  # dlopen of sanitizers does not search the run path of the binary that calls it.
  set(opened ${soname})
  if(OCTET_FUZZ OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(opened ${folder}/${soname})
  endif()
  target_compile_definitions(octet_${backend}_library INTERFACE $<BUILD_INTERFACE:OCTET_${name}_SONAME="${opened}">)
  # As with linked libraries, programs in the build folder find it there first.
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
