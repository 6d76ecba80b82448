# Where binaries that are installed look for libraries.

# octet_run_path(<target> <folder> <component> [EXCLUDE_FROM_ALL] PATHS <path>... [BUILD <path>...]): installed into <folder>, it looks into PATHS;
# in the build tree into BUILD and the folders of what it links or opens, too.
# CMake's own way to replace a run path leaves an empty entry at the end of the build tree's, which the loader takes for the current folder. So the
# build tree's begins with the installed one, and loses what is behind it when it is installed.
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
