# Run by CPack before it makes packages: what Debian's policy wants of the files of a package.

if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

function(compress)
  execute_process(COMMAND gzip -9n ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# SOURCE_DATE_EPOCH sets it.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(package IN LISTS CPACK_COMPONENTS_ALL)
  set(share "${CPACK_TEMPORARY_DIRECTORY}/${package}${CPACK_PACKAGING_INSTALL_PREFIX}/share")
  set(doc "${share}/doc/${package}")
  # The copyright file has the licences; changelog.gz is the file that people look for.
  file(REMOVE "${doc}/LICENSE-APACHE" "${doc}/LICENSE-MIT" "${doc}/CHANGELOG.md")
  configure_file("${CPACK_NCCL_OTF2_CHANGELOG}" "${doc}/changelog" COPYONLY)
  file(WRITE "${doc}/changelog.Debian" "\
nccl-profiler-otf2 (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Packaged by the project itself; changelog.gz has what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB compressed "${share}/man/man1/*.1" "${doc}/third-party-licenses.txt")
  compress("${doc}/changelog" "${doc}/changelog.Debian" ${compressed})
  file(GLOB_RECURSE libraries "${CPACK_TEMPORARY_DIRECTORY}/${package}/*.so*")
  foreach(library IN LISTS libraries)
    if(NOT IS_SYMLINK "${library}")
      file(CHMOD "${library}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    endif()
  endforeach()
  if(IS_DIRECTORY "${share}/zsh/site-functions")
    file(RENAME "${share}/zsh/site-functions" "${share}/zsh/vendor-completions")
  endif()
endforeach()
