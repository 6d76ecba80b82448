# Functions for installing: build targets first, and set run paths.

# octet_build_first(<component> [EXCLUDE_FROM_ALL] TARGETS <target>...): `cmake --install` builds
# these targets before it installs the component, so that it works after a build of the command
# alone. Call it before the rules that install the targets.
function(octet_build_first component)
  cmake_parse_arguments(ARG "EXCLUDE_FROM_ALL" "" "TARGETS" ${ARGN})
  set(targets)
  foreach(target ${ARG_TARGETS})
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL INTERFACE_LIBRARY)
      list(APPEND targets ${target})
    endif()
  endforeach()
  list(JOIN targets " " targets)
  set(excluded)
  if(ARG_EXCLUDE_FROM_ALL)
    set(excluded EXCLUDE_FROM_ALL)
  endif()
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target ${targets} COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${component} ${excluded})
endfunction()

# octet_run_path(<target> <folder> <component> [EXCLUDE_FROM_ALL] PATHS <path>... [BUILD
# <path>...]): installed into <folder>, the target searches PATHS for libraries; in the build tree,
# also BUILD and the folders of what it links or opens. When CMake replaces a run path, it leaves an
# empty entry, which the loader reads as the current folder. So the run path of the build tree
# starts with the installed one, and installing removes the rest.
function(octet_run_path target folder component)
  cmake_parse_arguments(ARG "EXCLUDE_FROM_ALL" "" "PATHS;BUILD" ${ARGN})
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON
    INSTALL_RPATH "${ARG_PATHS};${CMAKE_BUILD_RPATH};${ARG_BUILD}")
  list(JOIN ARG_PATHS ":" paths)
  string(REPLACE "$" "\\$" paths "${paths}")
  set(excluded)
  if(ARG_EXCLUDE_FROM_ALL)
    set(excluded EXCLUDE_FROM_ALL)
  endif()
  install(CODE "file(RPATH_SET FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\" NEW_RPATH \"${paths}\")"
    COMPONENT ${component} ${excluded})
endfunction()
