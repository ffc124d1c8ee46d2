# Builds the plugin, TensorFlow's profiler and the tool with cargo, into the build tree. cargo knows by itself what is
# out of date, so it runs at every build.

find_program(CARGO_EXECUTABLE cargo HINTS "$ENV{HOME}/.cargo/bin")
if(NOT CARGO_EXECUTABLE)
  message(FATAL_ERROR "cargo was not found: a Rust toolchain is needed (see rust-version in Cargo.toml)")
endif()

# The build tree is the user's to place; NCCL_OTF2_CARGO_TARGET_DIR shares one with other cargo builds.
set(NCCL_OTF2_CARGO_TARGET_DIR "${CMAKE_CURRENT_BINARY_DIR}/cargo" CACHE PATH "Where cargo builds")
set(cargo_out "${NCCL_OTF2_CARGO_TARGET_DIR}")
set(cargo_build "${CARGO_EXECUTABLE}" build)
set(NCCL_OTF2_GLIBC "" CACHE STRING "Oldest glibc to run with, such as 2.28 (cargo-zigbuild; empty: this system's)")
if(NCCL_OTF2_GLIBC)
  find_program(CARGO_ZIGBUILD_EXECUTABLE cargo-zigbuild HINTS "$ENV{HOME}/.cargo/bin")
  if(NOT CARGO_ZIGBUILD_EXECUTABLE)
    message(FATAL_ERROR "NCCL_OTF2_GLIBC=${NCCL_OTF2_GLIBC} needs cargo-zigbuild: pip install cargo-zigbuild ziglang")
  endif()
  set(triple "${CMAKE_SYSTEM_PROCESSOR}-unknown-linux-gnu")
  string(APPEND cargo_out "/${triple}")
  set(cargo_build "${CARGO_ZIGBUILD_EXECUTABLE}" zigbuild --target "${triple}.${NCCL_OTF2_GLIBC}")
endif()
string(APPEND cargo_out "/dist")
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

if(NCCL_OTF2_GLIBC)
  list(APPEND cargo_env "CARGO=${CARGO_EXECUTABLE}")
  # The zig of the same Python environment; without one cargo-zigbuild looks on PATH.
  get_filename_component(zig_dir "${CARGO_ZIGBUILD_EXECUTABLE}" DIRECTORY)
  find_program(ZIG_EXECUTABLE NAMES python-zig zig HINTS "${zig_dir}")
  if(ZIG_EXECUTABLE)
    list(APPEND cargo_env "CARGO_ZIGBUILD_ZIG_PATH=${ZIG_EXECUTABLE}")
  endif()
  # Published files do not name folders of the machine that built them.
  set(cargo_home "$ENV{HOME}/.cargo")
  if(DEFINED ENV{CARGO_HOME})
    set(cargo_home "$ENV{CARGO_HOME}")
  endif()
  list(APPEND cargo_env
    "RUSTFLAGS=--remap-path-prefix=${cargo_home}=cargo --remap-path-prefix=${source}=nccl-profiler-otf2")
endif()

add_custom_target(libraries_and_tool ALL
  COMMAND ${CMAKE_COMMAND} -E env ${cargo_env}
    ${cargo_build} --locked --profile dist
    --manifest-path "${source}/Cargo.toml" --target-dir "${NCCL_OTF2_CARGO_TARGET_DIR}"
    --package nccl-profiler-otf2 --package nccl-otf2-tensorflow --package nccl-otf2
  WORKING_DIRECTORY "${source}"
  BYPRODUCTS "${plugin_built}" "${tensorflow_built}" "${tool_built}"
  USES_TERMINAL VERBATIM
  COMMENT "cargo build --profile dist")
