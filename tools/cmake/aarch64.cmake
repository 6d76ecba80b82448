# Cross-compiles the runtime for 64-bit ARM Linux with Debian's g++-aarch64-linux-gnu (tools/dev/aarch64.sh makes the sysroot and uses this file).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# XNNPACK and its dependencies, unpacked from the arm64 packages. Header-only libraries are those of
# the build machine.
set(OCTET_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64/sysroot CACHE PATH "Where the arm64 packages were unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES OCTET_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${OCTET_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${OCTET_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${OCTET_SYSROOT}/usr/lib/aarch64-linux-gnu")

# Built programs run under emulation.
find_program(OCTET_QEMU qemu-aarch64-static)
if(OCTET_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${OCTET_QEMU} -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${OCTET_SYSROOT}/usr/lib/aarch64-linux-gnu)
endif()
