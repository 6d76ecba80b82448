# What is installed: that it is built, and where it looks for libraries.

# octet_build_first(<component> [EXCLUDE_FROM_ALL] TARGETS <target>...): `cmake --install` builds these targets before it installs the component, so that
# it works after a build of the command alone. Rules run in order: it must come before the rules that install the targets.
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

# octet_run_path(<target> <folder> <component> [EXCLUDE_FROM_ALL] PATHS <path>... [BUILD <path>...]): installed into <folder>, it looks into PATHS;
# in the build tree into BUILD and the folders of what it links or opens, too.
# CMake's own way to replace a run path leaves an empty entry at the end of the build tree's, which the loader takes for the current folder. So the
# build tree's starts with the installed one, and installing removes the rest.
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
