# Finds OTF2 by asking its own otf2-config.
#
# Looks at OTF2_DIR (a prefix; variable or environment), OTF2_CONFIG (the program itself; likewise), then PATH.
# Sets OTF2_FOUND, OTF2_VERSION, OTF2_CONFIG_EXECUTABLE, OTF2_PRINT_EXECUTABLE and, where it can be told,
# OTF2_PREFIX. cargo does its own probing in the same order; this is here to fail early and clearly.

set(_otf2_hints)
foreach(_otf2_dir IN ITEMS "${OTF2_DIR}" "$ENV{OTF2_DIR}")
  if(_otf2_dir)
    list(APPEND _otf2_hints "${_otf2_dir}/bin")
  endif()
endforeach()

if(OTF2_CONFIG)
  set(OTF2_CONFIG_EXECUTABLE "${OTF2_CONFIG}" CACHE FILEPATH "OTF2's otf2-config")
elseif(DEFINED ENV{OTF2_CONFIG})
  set(OTF2_CONFIG_EXECUTABLE "$ENV{OTF2_CONFIG}" CACHE FILEPATH "OTF2's otf2-config")
elseif(_otf2_hints)
  # A prefix that was named and does not have it is a mistake to report, not a reason to take another OTF2.
  # Nor is another one that an earlier run of CMake found.
  get_filename_component(_otf2_found "${OTF2_CONFIG_EXECUTABLE}" DIRECTORY)
  if(NOT _otf2_found IN_LIST _otf2_hints)
    unset(OTF2_CONFIG_EXECUTABLE CACHE)
  endif()
  find_program(OTF2_CONFIG_EXECUTABLE otf2-config PATHS ${_otf2_hints} NO_DEFAULT_PATH)
else()
  find_program(OTF2_CONFIG_EXECUTABLE otf2-config)
endif()
find_program(OTF2_PRINT_EXECUTABLE otf2-print HINTS ${_otf2_hints})

set(_otf2_reason "otf2-config was not found. Debian and Ubuntu: apt-get install libotf2-trace-dev otf2-tools. \
On a cluster: module load otf2 (or scorep), or -DOTF2_DIR=PREFIX")
if(OTF2_CONFIG_EXECUTABLE)
  execute_process(
    COMMAND "${OTF2_CONFIG_EXECUTABLE}" --version
    OUTPUT_VARIABLE _otf2_output ERROR_VARIABLE _otf2_error RESULT_VARIABLE _otf2_result
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(_otf2_result EQUAL 0 AND _otf2_output MATCHES "version ([0-9]+\\.[0-9]+(\\.[0-9]+)?)")
    set(OTF2_VERSION "${CMAKE_MATCH_1}")
    set(_otf2_reason "${OTF2_CONFIG_EXECUTABLE} is of another version. Name a newer OTF2 with -DOTF2_DIR=PREFIX")
  else()
    set(_otf2_reason
      "${OTF2_CONFIG_EXECUTABLE} --version gave no version (${_otf2_result}): ${_otf2_output}${_otf2_error}")
  endif()
  get_filename_component(_otf2_bin "${OTF2_CONFIG_EXECUTABLE}" DIRECTORY)
  get_filename_component(OTF2_PREFIX "${_otf2_bin}" DIRECTORY)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OTF2
  REQUIRED_VARS OTF2_CONFIG_EXECUTABLE OTF2_VERSION
  VERSION_VAR OTF2_VERSION
  REASON_FAILURE_MESSAGE "${_otf2_reason}")
mark_as_advanced(OTF2_CONFIG_EXECUTABLE OTF2_PRINT_EXECUTABLE)
