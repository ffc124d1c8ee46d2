# Builds the plugin, TensorFlow's profiler and the tool with cargo, into the build tree. cargo knows by itself what is
# out of date, so it runs at every build.

find_program(CARGO_EXECUTABLE cargo HINTS "$ENV{HOME}/.cargo/bin")
if(NOT CARGO_EXECUTABLE)
  message(FATAL_ERROR "cargo was not found: a Rust toolchain is needed (see rust-version in Cargo.toml)")
endif()

# The build tree is the user's to place; NCCL_OTF2_CARGO_TARGET_DIR shares one with other cargo builds.
set(NCCL_OTF2_CARGO_TARGET_DIR "${CMAKE_CURRENT_BINARY_DIR}/cargo" CACHE PATH "Where cargo builds")
set(cargo_out "${NCCL_OTF2_CARGO_TARGET_DIR}/dist")
set(plugin_built "${cargo_out}/libnccl_profiler_otf2.so")
set(tensorflow_built "${cargo_out}/libnccl_otf2_tensorflow.so")
set(tool_built "${cargo_out}/nccl-otf2")

# Only what differs from cargo's own defaults is passed on, so that a build shares its outputs with cargo's.
set(cargo_env)
if(NOT OTF2_STATIC)
  list(APPEND cargo_env "OTF2_STATIC=0")
elseif(DEFINED ENV{OTF2_STATIC})
  list(APPEND cargo_env "OTF2_STATIC=1")
endif()
if(OTF2_DIR OR OTF2_CONFIG)
  list(APPEND cargo_env --unset=OTF2_DIR "OTF2_CONFIG=${OTF2_CONFIG_EXECUTABLE}")
endif()

add_custom_target(libraries_and_tool ALL
  COMMAND ${CMAKE_COMMAND} -E env ${cargo_env}
    "${CARGO_EXECUTABLE}" build --locked --profile dist
    --manifest-path "${source}/Cargo.toml" --target-dir "${NCCL_OTF2_CARGO_TARGET_DIR}"
    --package nccl-profiler-otf2 --package nccl-otf2-tensorflow --package nccl-otf2
  WORKING_DIRECTORY "${source}"
  BYPRODUCTS "${plugin_built}" "${tensorflow_built}" "${tool_built}"
  USES_TERMINAL VERBATIM
  COMMENT "cargo build --profile dist")
