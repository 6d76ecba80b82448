# Rules of cmake --install. Installed files find each other by relative paths, so the prefix can be
# moved. Components:
#   runtime               liboctet_runtime.so, with the oneDNN that it opens
#   runtime-development   octet.h, the C++ headers and static libraries of the runtime, the CMake package, pkg-config's octet.pc
#   command               bin/octet, with its LibTorch
#   development           headers and static libraries of what needs LibTorch, with LibTorch's own headers and CMake package
# To use it:
#   find_package(octet REQUIRED COMPONENTS runtime)                    # octet::runtime, octet::runtime_shared, octet::plugin; no LibTorch is looked for
#   octet_add_conformance_test(NAME conforms BACKEND b LIBRARY target) # a test that runs `octet conformance`, with either of the two
#   find_package(octet REQUIRED)                                       # these, octet::lowering, octet::quantizers, octet::extension (for --library), octet::quantizer_conformance
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

option(OCTET_INSTALL_LIBRARIES "Install LibTorch and oneDNN beside Octet, unless they are the system's" ON)
set(OCTET_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
set(OCTET_LIBRARY_FOLDER ${CMAKE_INSTALL_LIBDIR}/octet)  # of other projects' libraries
set(OCTET_HEADER_FOLDER ${CMAKE_INSTALL_INCLUDEDIR}/octet)

# octet_is_beside(<variable> <folder>): whether to install the libraries in the folder.
function(octet_is_beside variable folder)
  set(${variable} OFF PARENT_SCOPE)
  if(OCTET_INSTALL_LIBRARIES AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    set(${variable} ON PARENT_SCOPE)
  endif()
endfunction()

# octet_install_targets(<export> <component> <targets>...): installs libraries and exports each as
# octet::<name>.
function(octet_install_targets export component)
  foreach(target ${ARGN})
    string(REPLACE octet_ "" name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  endforeach()
  install(TARGETS ${ARGN} EXPORT ${export} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT ${component})
  install(EXPORT ${export} NAMESPACE octet:: DESTINATION ${OCTET_PACKAGE_FOLDER} COMPONENT ${component})
endfunction()

# octet_install_headers(<section> <component>): installs the headers of <section> and of <included
# by section> in public_headers.txt.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/public_headers.txt)
function(octet_install_headers section component)
  file(STRINGS tools/cmake/public_headers.txt lines REGEX "^[^#]")
  set(is_wanted OFF)
  foreach(line ${lines})
    if(line MATCHES "^<(included by )?([a-z]+)>$")
      string(COMPARE EQUAL ${CMAKE_MATCH_2} ${section} is_wanted)
    elseif(is_wanted)
      cmake_path(GET line PARENT_PATH folder)
      install(FILES ${line} DESTINATION ${OCTET_HEADER_FOLDER}/${folder} COMPONENT ${component})
    endif()
  endforeach()
endfunction()

# ---- the runtime
set(targets octet_options octet_base octet_program octet_backend_common octet_reference octet_runtime octet_conformance octet_plugin octet_runtime_shared)
foreach(backend onednn xnnpack)
  if(TARGET octet_${backend})
    list(APPEND targets octet_${backend} octet_${backend}_library)
  endif()
endforeach()
octet_build_first(runtime TARGETS octet_runtime_shared)
octet_build_first(runtime-development TARGETS ${targets})
octet_install_targets(octet-runtime-targets runtime-development ${targets})
octet_run_path(octet_runtime_shared ${CMAKE_INSTALL_LIBDIR} runtime PATHS "$ORIGIN/octet")
octet_install_headers(runtime runtime-development)
install(FILES backends/runtime/octet.h backends/runtime/octet_plugin.h DESTINATION ${OCTET_HEADER_FOLDER} COMPONENT runtime-development)
target_link_options(octet_plugin INTERFACE "$<INSTALL_INTERFACE:-Wl,--version-script=$<INSTALL_PREFIX>/${OCTET_PACKAGE_FOLDER}/plugin.map>")
install(FILES backends/runtime/example.c DESTINATION ${CMAKE_INSTALL_DATADIR}/octet COMPONENT runtime-development)
install(FILES backends/plugin/plugin.map DESTINATION ${OCTET_PACKAGE_FOLDER} COMPONENT runtime-development)

if(OCTET_ONEDNN_OPENED)
  get_target_property(file DNNL::dnnl LOCATION)
  cmake_path(GET file PARENT_PATH folder)
  octet_is_beside(is_beside ${folder})
  if(is_beside)
    file(REAL_PATH ${file} file)
    install(FILES ${file} RENAME ${OCTET_ONEDNN_SONAME} DESTINATION ${OCTET_LIBRARY_FOLDER} COMPONENT runtime)
    # Programs that link the static runtime open it from there.
    target_link_options(octet_onednn_library INTERFACE "$<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/${OCTET_LIBRARY_FOLDER}>")
  endif()
endif()

# ---- what needs LibTorch
if(OCTET_TORCH)
  set(targets octet_torch octet_core octet_annotate octet_accuracy octet_compare octet_quantizers octet_lowering octet_extension octet_quantizer_conformance)
  octet_build_first(development TARGETS ${targets} octet_headers_hash)
  octet_build_first(command TARGETS octet)
  octet_install_targets(octet-torch-targets development ${targets})
  octet_install_headers(development development)
  get_directory_property(file DIRECTORY tools DEFINITION OCTET_HEADERS_HASH_FILE)
  install(FILES ${file} DESTINATION ${OCTET_HEADER_FOLDER}/tools COMPONENT development)
  install(FILES tools/cmake/libtorch.cmake DESTINATION ${OCTET_PACKAGE_FOLDER} COMPONENT development)
  install(TARGETS octet RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(FILES quantizers/quantizer.schema.json quantizers/tensorrt.json quantizers/toy_npu.json DESTINATION ${CMAKE_INSTALL_DATADIR}/octet COMPONENT command)
  install(DIRECTORY tools/example_backend DESTINATION ${CMAKE_INSTALL_DATADIR}/octet COMPONENT command)  # for `octet new-backend`
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_BINDIR}" "/${OCTET_LIBRARY_FOLDER}")
  # oneDNN is in a folder without LibTorch's libgomp.
  octet_run_path(octet ${CMAKE_INSTALL_BINDIR} command PATHS "$ORIGIN/${up}" "$ORIGIN/${up}/torch/lib" BUILD ${OCTET_LIBTORCH}/lib)

  octet_is_beside(is_beside ${OCTET_LIBTORCH}/lib)
  if(is_beside)
    # Leaves out libtorch_python and libraries of tests. libtorch.so is for LibTorch's CMake
    # package.
    foreach(library torch torch_cpu c10)
      install(FILES ${OCTET_LIBTORCH}/lib/lib${library}.so DESTINATION ${OCTET_LIBRARY_FOLDER}/torch/lib COMPONENT command)
    endforeach()
    file(GLOB gomp ${OCTET_LIBTORCH}/lib/libgomp*.so*)
    install(FILES ${gomp} DESTINATION ${OCTET_LIBRARY_FOLDER}/torch/lib COMPONENT command)
    install(DIRECTORY ${OCTET_LIBTORCH}/include ${OCTET_LIBTORCH}/share DESTINATION ${OCTET_LIBRARY_FOLDER}/torch COMPONENT development PATTERN python EXCLUDE)
    set(OCTET_TORCH_FOLDER ${OCTET_LIBRARY_FOLDER}/torch)
  endif()
endif()

# ---- the packages
configure_package_config_file(tools/cmake/octet-config.cmake.in ${CMAKE_BINARY_DIR}/octet-config.cmake INSTALL_DESTINATION ${OCTET_PACKAGE_FOLDER})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/octet-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/octet-config.cmake ${CMAKE_BINARY_DIR}/octet-config-version.cmake tools/cmake/octet-conformance.cmake DESTINATION ${OCTET_PACKAGE_FOLDER}
  COMPONENT runtime-development)

file(RELATIVE_PATH OCTET_PREFIX_OF_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(tools/cmake/octet.pc.in ${CMAKE_BINARY_DIR}/octet.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/octet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime-development)
