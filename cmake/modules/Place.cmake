# For install scripts. A job may start or run while an installation is replaced: it must find the old file or the new
# one. Half a library kills the process that loads it (SIGBUS), and a file that is written in place kills those that
# have loaded it. So every file gets a temporary name in its folder and is renamed.

# Sets `folder` for a destination that is absolute or relative to the prefix, and `new`, the temporary name there.
macro(begin destination name)
  set(folder "${destination}")
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
  # The manifest has no DESTDIR.
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${folder}/${name}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
  string(PREPEND folder "$ENV{DESTDIR}")
  set(new "${folder}/.${name}.new")
  message(STATUS "Installing: ${folder}/${name}")
  file(REMOVE "${new}")
endmacro()

function(place_file file destination name)
  begin("${destination}" "${name}")
  configure_file("${file}" "${new}" COPYONLY FILE_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  file(RENAME "${new}" "${folder}/${name}")
endfunction()

function(place_link target destination name)
  begin("${destination}" "${name}")
  file(CREATE_LINK "${target}" "${new}" SYMBOLIC)
  file(RENAME "${new}" "${folder}/${name}")
endfunction()
