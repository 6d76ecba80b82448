# Finds what Octet is built on. The virtual environment that tools/setup.sh makes is searched first.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)

set(OCTET_VENV ${CMAKE_SOURCE_DIR}/.venv CACHE PATH "Virtual environment with torch and oneDNN")
file(GLOB OCTET_VENV_SITE ${OCTET_VENV}/lib/python3*/site-packages)

# The installed command finds LibTorch and oneDNN where the build found them (CMake leaves out paths within the source tree by itself).
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
if(OCTET_VENV_SITE)
  set(CMAKE_INSTALL_RPATH ${OCTET_VENV}/lib ${OCTET_VENV_SITE}/torch/lib)
endif()

# Interface target with the language level, warnings and header-only {fmt} that all targets share.
# {fmt} is header-only everywhere: torch's include folder carries another version of its headers, and header-only keeps each translation
# unit consistent with whichever it sees.
add_library(octet_options INTERFACE)
target_compile_features(octet_options INTERFACE cxx_std_20)
target_include_directories(octet_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/octet>)
target_include_directories(octet_options SYSTEM INTERFACE $<BUILD_INTERFACE:${FMT_INCLUDE_DIR}>)
target_compile_definitions(octet_options INTERFACE FMT_HEADER_ONLY)
target_compile_options(octet_options INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wno-unknown-pragmas>)

if(OCTET_TORCH)
  if(NOT Torch_DIR AND OCTET_VENV_SITE)
    set(Torch_DIR ${OCTET_VENV_SITE}/torch/share/cmake/Torch)
  endif()
  find_package(Torch 2.13 REQUIRED)
  # TORCH_LIBRARIES drags in flags and includes as plain variables; one interface target keeps them away from the torch-free targets.
  find_package(CLI11 REQUIRED)
  add_library(octet_torch INTERFACE)
  target_link_libraries(octet_torch INTERFACE octet_options ${TORCH_LIBRARIES})
endif()

# Without MPI everything works but calibration in several processes, which is refused then.
if(OCTET_TORCH AND OCTET_MPI)
  find_package(MPI COMPONENTS C)
endif()

if(OCTET_ONEDNN)
  if(NOT dnnl_DIR AND EXISTS ${OCTET_VENV}/lib/cmake/dnnl)
    set(dnnl_DIR ${OCTET_VENV}/lib/cmake/dnnl)
  endif()
  find_package(dnnl 3.2 CONFIG REQUIRED)
endif()

if(OCTET_XNNPACK)
  find_path(XNNPACK_INCLUDE_DIR xnnpack.h REQUIRED)
  find_library(XNNPACK_LIBRARY XNNPACK REQUIRED)
  find_library(PTHREADPOOL_LIBRARY pthreadpool REQUIRED)
  add_library(octet_xnnpack_library INTERFACE)
  target_include_directories(octet_xnnpack_library SYSTEM INTERFACE $<BUILD_INTERFACE:${XNNPACK_INCLUDE_DIR}>)
  target_link_libraries(octet_xnnpack_library INTERFACE ${XNNPACK_LIBRARY} ${PTHREADPOOL_LIBRARY})
endif()
