# deb and rpm: a package for each component but modulefile, which is for prefixes of their own.
#
#   cmake -S cmake -B build -DCMAKE_INSTALL_PREFIX=/usr && cmake --build build && (cd build && cpack -G DEB)
#   cmake -S cmake -B build -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib64 && … && (cd build && cpack -G RPM)
#
# The packages depend on the C library that their files ask for: build on the oldest system that is to be served, or
# take binaries that were built for it (NCCL_OTF2_PREBUILT_DIR).

set(NCCL_OTF2_MAINTAINER "The developers of nccl-profiler-otf2 <nccl-profiler-otf2@lists.invalid>" CACHE STRING
  "Maintainer of the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_NAME "nccl-profiler-otf2")
set(CPACK_PACKAGE_VENDOR "nccl-profiler-otf2")
set(CPACK_PACKAGE_CONTACT "${NCCL_OTF2_MAINTAINER}")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_COMPONENTS_ALL libnccl-profiler-otf2 nccl-otf2)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/DebianDependencies.cmake")
# Read by these scripts.
set(CPACK_NCCL_OTF2_CHANGELOG "${source}/CHANGELOG.md")
set(CPACK_NCCL_OTF2_BINARIES "${plugin_built}" "${tensorflow_built}" "${tool_built}")

# The first line is what lists of packages show.
set(plugin_summary "profiler plugin of NCCL that writes OTF2 traces")
set(plugin_description "\
NCCL is NVIDIA's library for collective communication between GPUs.
This plugin records what NCCL does in an unchanged job, on the host,
in the network and on the GPUs, as an OTF2 archive. A job is recorded
if NCCL_PROFILER_PLUGIN=otf2 is set, or if nccl-otf2 run starts it.

The package also has the library for TensorFlow's profiler.")
set(tool_summary "records NCCL jobs as OTF2 traces, and shows what is slow")
set(tool_description "\
This tool runs a job with the plugin of libnccl-profiler-otf2, shows
what is slow in its trace and who holds up a job that hangs, and writes
traces for other programs: Perfetto, PyTorch, TensorBoard, Parquet and
Scalasca. It reads traces without the plugin.")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_LIBNCCL-PROFILER-OTF2_PACKAGE_NAME libnccl-profiler-otf2)
set(CPACK_DEBIAN_LIBNCCL-PROFILER-OTF2_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBNCCL-PROFILER-OTF2_DESCRIPTION "${plugin_summary}\n${plugin_description}")
set(CPACK_DEBIAN_LIBNCCL-PROFILER-OTF2_PACKAGE_SUGGESTS nccl-otf2)
# CPack writes maintainer scripts that call ldconfig; Debian wants the trigger.
set(CPACK_DEBIAN_LIBNCCL-PROFILER-OTF2_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_SOURCE_DIR}/files/triggers")
set(CPACK_DEBIAN_NCCL-OTF2_PACKAGE_NAME nccl-otf2)
set(CPACK_DEBIAN_NCCL-OTF2_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_NCCL-OTF2_DESCRIPTION "${tool_summary}\n${tool_description}")
set(CPACK_DEBIAN_NCCL-OTF2_PACKAGE_RECOMMENDS
  "libnccl-profiler-otf2 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "(Apache-2.0 OR MIT) AND BSD-3-Clause")
set(CPACK_RPM_LIBNCCL-PROFILER-OTF2_PACKAGE_NAME libnccl-profiler-otf2)
set(CPACK_RPM_LIBNCCL-PROFILER-OTF2_PACKAGE_SUMMARY "${plugin_summary}")
set(CPACK_RPM_LIBNCCL-PROFILER-OTF2_PACKAGE_DESCRIPTION "${plugin_description}")
set(CPACK_RPM_NCCL-OTF2_PACKAGE_NAME nccl-otf2)
set(CPACK_RPM_NCCL-OTF2_PACKAGE_SUMMARY "${tool_summary}")
set(CPACK_RPM_NCCL-OTF2_PACKAGE_DESCRIPTION "${tool_description}")
# CPack before 3.31 writes no Recommends.
set(CPACK_RPM_NCCL-OTF2_PACKAGE_REQUIRES "libnccl-profiler-otf2 = ${PROJECT_VERSION}")
# The files are stripped; rpmbuild would change them again. It makes a .pc file a reason to install pkg-config.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define __os_install_post %{nil}
%define _build_id_links none
%define __requires_exclude ^/usr/bin/pkg-config$")
# Folders of other packages.
set(share "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}")
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig"
  "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}" "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1"
  "${share}/bash-completion" "${share}/bash-completion/completions" "${share}/zsh" "${share}/zsh/site-functions"
  "${share}/fish" "${share}/fish/vendor_completions.d")

include(CPack)
