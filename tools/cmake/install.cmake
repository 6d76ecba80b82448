# cmake --install: the command, static libraries, headers, and a package that find_package(octet) finds.
#   find_package(octet REQUIRED)
#   target_link_libraries(my_quantizer PRIVATE octet::quantizers)      # octet::extension for --library
#   target_link_libraries(my_app PRIVATE octet::runtime)               # or octet::runtime_shared: need no LibTorch; C includes octet.h
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(OCTET_INSTALLED_TARGETS octet_options octet_base octet_isolated_library octet_reference octet_runtime octet_runtime_shared)
if(OCTET_ONEDNN)
  list(APPEND OCTET_INSTALLED_TARGETS octet_onednn octet_onednn_library)
endif()
if(OCTET_XNNPACK)
  list(APPEND OCTET_INSTALLED_TARGETS octet_xnnpack octet_xnnpack_library)
endif()
if(OCTET_TORCH)
  list(APPEND OCTET_INSTALLED_TARGETS octet_torch octet_core octet_annotate octet_quantizers octet_lowering octet_extension)
  install(TARGETS octet RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES quantizers/quantizer.schema.json quantizers/toy_npu.json DESTINATION ${CMAKE_INSTALL_DATADIR}/octet)
  install(DIRECTORY annotate quantizers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/octet FILES_MATCHING PATTERN "*.h")
  install(FILES tools/extension.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/octet/tools)
endif()
foreach(target ${OCTET_INSTALLED_TARGETS})
  string(REPLACE octet_ "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${OCTET_INSTALLED_TARGETS} EXPORT octet-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT octet-targets NAMESPACE octet:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
install(DIRECTORY core lowering backends DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/octet FILES_MATCHING PATTERN "*.h")
install(FILES backends/runtime/octet.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/octet)

configure_package_config_file(tools/cmake/octet-config.cmake.in ${CMAKE_BINARY_DIR}/octet-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/octet-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/octet-config.cmake ${CMAKE_BINARY_DIR}/octet-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
