# Reads an archive with OTF2's own printer: cmake -DOTF2_PRINT=... -DANCHOR=... -P archive.cmake

execute_process(COMMAND "${OTF2_PRINT}" "${ANCHOR}"
  OUTPUT_VARIABLE text ERROR_VARIABLE complaints RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR NOT complaints STREQUAL "")
  message(FATAL_ERROR "otf2-print ${ANCHOR} ended with ${result}: ${complaints}")
endif()
# Two rounds of one call each, what host.c does.
string(REGEX MATCHALL "\nENTER [^\n]*Region: \"ncclAllReduce\"" calls "${text}")
list(LENGTH calls number)
if(number LESS 2)
  message(FATAL_ERROR "${ANCHOR} has ${number} times ncclAllReduce; the host called it twice:\n${text}")
endif()
