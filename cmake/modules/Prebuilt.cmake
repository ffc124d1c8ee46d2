# Takes the plugin, TensorFlow's profiler and the tool from NCCL_OTF2_PREBUILT_DIR: a prefix, an unpacked tarball, or
# cargo's output directory (target/dist).

function(find_prebuilt variable what)
  unset(${variable} CACHE)
  find_file(${variable} NAMES ${ARGN} PATHS "${NCCL_OTF2_PREBUILT_DIR}" PATH_SUFFIXES bin lib lib64
    NO_DEFAULT_PATH NO_CACHE)
  if(NOT ${variable})
    message(FATAL_ERROR "NCCL_OTF2_PREBUILT_DIR=${NCCL_OTF2_PREBUILT_DIR} has no ${what}: "
      "looked for ${ARGN} there, in bin, lib and lib64")
  endif()
  # A link would be installed as a link.
  file(REAL_PATH "${${variable}}" file)
  set(${variable} "${file}" PARENT_SCOPE)
endfunction()

find_prebuilt(plugin_built "plugin" libnccl-profiler-otf2.so libnccl_profiler_otf2.so)
find_prebuilt(tensorflow_built "library for TensorFlow" libnccl-otf2-tensorflow.so libnccl_otf2_tensorflow.so)
find_prebuilt(tool_built "tool" nccl-otf2)
