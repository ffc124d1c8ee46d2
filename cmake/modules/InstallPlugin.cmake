# Installs under the names that NCCL and people look for. There are no headers: nothing links with the plugin.
# Components are the packages: libnccl-profiler-otf2 (what a job loads), nccl-otf2 (the tool and its pages), and
# modulefile.

# NCCL_PROFILER_PLUGIN=otf2 makes NCCL look for this name on the library path.
set(plugin_name "libnccl-profiler-otf2.so")
# TF_PLUGGABLE_DEVICE_LIBRARY_PATH names this one.
set(tensorflow_name "libnccl-otf2-tensorflow.so")

set(place "include(\"${CMAKE_CURRENT_LIST_DIR}/Place.cmake\")")
# install_atomically(COMPONENT DESTINATION FILE NAME [LINK...]): the links lead to NAME.
function(install_atomically component destination file name)
  set(code "${place}\nplace_file(\"${file}\" \"${destination}\" \"${name}\")")
  foreach(link IN LISTS ARGN)
    string(APPEND code "\nplace_link(\"${name}\" \"${destination}\" \"${link}\")")
  endforeach()
  install(DIRECTORY DESTINATION "${destination}" COMPONENT ${component})
  install(CODE "${code}" COMPONENT ${component})
endfunction()

# The file has the version in its name, as other plugins of NCCL. The soname has none: NCCL and the two libraries look
# for each other by the name without a version, which dlopen compares with the sonames of what is loaded
# (crates/in-process). ldconfig makes the link of this name, too.
set(links "${plugin_name}.${PROJECT_VERSION_MAJOR}" "${plugin_name}")
# SCOREP_SUBSTRATE_PLUGINS=nccl_otf2 makes Score-P look for this name: the same file, so that a process has it once.
list(APPEND links "libscorep_substrate_nccl_otf2.so")
# Older RCCLs look for their own name with NCCL_PROFILER_PLUGIN=otf2.
list(APPEND links "librccl-profiler-otf2.so")
if(NCCL_OTF2_PLAIN_LINK)
  # Without NCCL_PROFILER_PLUGIN, NCCL and RCCL try these names: then every job on this library path is recorded.
  list(APPEND links "libnccl-profiler.so" "librccl-profiler.so")
endif()
install_atomically(libnccl-profiler-otf2 "${CMAKE_INSTALL_LIBDIR}" "${plugin_built}"
  "${plugin_name}.${PROJECT_VERSION}" ${links})
install_atomically(libnccl-profiler-otf2 "${CMAKE_INSTALL_LIBDIR}" "${tensorflow_built}" "${tensorflow_name}")
install_atomically(nccl-otf2 "${CMAKE_INSTALL_BINDIR}" "${tool_built}" "nccl-otf2")

# Man pages and completions are what the tool makes of its own command line.
set(pages "${CMAKE_CURRENT_BINARY_DIR}/pages")
add_custom_command(OUTPUT "${pages}/man/man1/nccl-otf2.1"
  COMMAND ${CMAKE_COMMAND} -E rm -rf "${pages}"
  COMMAND "${tool_built}" pages "${pages}"
  DEPENDS "${tool_built}" VERBATIM COMMENT "Man pages and completions")
add_custom_target(pages ALL DEPENDS "${pages}/man/man1/nccl-otf2.1")
if(TARGET libraries_and_tool)
  add_dependencies(pages libraries_and_tool)
endif()
install(DIRECTORY "${pages}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT nccl-otf2)
install(DIRECTORY "${pages}/" DESTINATION "${CMAKE_INSTALL_DATADIR}" COMPONENT nccl-otf2
  PATTERN "man" EXCLUDE)

install(FILES "${source}/README.md" "${source}/CHANGELOG.md" "${source}/CONTRIBUTING.md" "${source}/SECURITY.md"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT nccl-otf2)
install(DIRECTORY "${source}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" COMPONENT nccl-otf2
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg" PATTERN "nccl.json")

foreach(component IN ITEMS libnccl-profiler-otf2 nccl-otf2)
  install(FILES "${CMAKE_CURRENT_SOURCE_DIR}/files/copyright" "${source}/LICENSE-APACHE" "${source}/LICENSE-MIT"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${component}" COMPONENT ${component})
  # `cargo xtask dist` puts the licences of what is linked in beside the binaries.
  if(NCCL_OTF2_PREBUILT_DIR)
    install(FILES "${NCCL_OTF2_PREBUILT_DIR}/share/doc/nccl-otf2/third-party-licenses.txt" OPTIONAL
      DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${component}" COMPONENT ${component})
  endif()
endforeach()

# Both files find the prefix from their own place, so that it can be moved.
set(modulefile_dir "${CMAKE_INSTALL_DATADIR}/modulefiles/nccl-otf2")
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
set(pkgconfig_to_prefix "${CMAKE_INSTALL_PREFIX}")
cmake_path(RELATIVE_PATH pkgconfig_to_prefix BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
# Lua's patterns have % where regular expressions have \.
string(REGEX REPLACE "([^A-Za-z0-9/])" "%\\1" modulefile_pattern "${modulefile_dir}")
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/files/modulefile.lua.in" "${PROJECT_VERSION}.lua" @ONLY)
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/files/pkgconfig.pc.in" "nccl-profiler-otf2.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${PROJECT_VERSION}.lua" DESTINATION "${modulefile_dir}"
  COMPONENT modulefile)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/nccl-profiler-otf2.pc" DESTINATION "${pkgconfig_dir}"
  COMPONENT libnccl-profiler-otf2)
