# Installs under the names that NCCL and people look for. There are no headers: nothing links with the plugin.

# NCCL_PROFILER_PLUGIN=otf2 makes NCCL look for this name on the library path.
set(plugin_name "libnccl-profiler-otf2.so")
# TF_PLUGGABLE_DEVICE_LIBRARY_PATH names this one.
set(tensorflow_name "libnccl-otf2-tensorflow.so")

foreach(library IN ITEMS plugin tensorflow)
  install(FILES "${${library}_built}" RENAME "${${library}_name}" DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
# SCOREP_SUBSTRATE_PLUGINS=nccl_otf2 makes Score-P look for this name: the same file, so that a process has it once.
install(CODE "
  file(CREATE_LINK \"${plugin_name}\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libscorep_substrate_nccl_otf2.so\" SYMBOLIC)")
# Older RCCLs look for their own name with NCCL_PROFILER_PLUGIN=otf2.
install(CODE "
  file(CREATE_LINK \"${plugin_name}\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/librccl-profiler-otf2.so\" SYMBOLIC)")
install(PROGRAMS "${tool_built}" DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES
  "${source}/README.md" "${source}/CHANGELOG.md" "${source}/LICENSE-APACHE" "${source}/LICENSE-MIT"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${source}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" FILES_MATCHING PATTERN "*.md"
  PATTERN "nccl.json")

if(NCCL_OTF2_PLAIN_LINK)
  # Without NCCL_PROFILER_PLUGIN, NCCL and RCCL try these names: then every job on this library path is recorded.
  foreach(library IN ITEMS nccl rccl)
    install(CODE "
      file(CREATE_LINK \"${plugin_name}\"
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/lib${library}-profiler.so\" SYMBOLIC)")
  endforeach()
endif()
