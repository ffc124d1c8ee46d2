//! The built files, in the target directory of the running test.

use std::path::{Path, PathBuf};

pub fn plugin() -> PathBuf {
    built("libnccl_profiler_otf2.so")
}

pub fn tensorflow_library() -> PathBuf {
    built("libnccl_otf2_tensorflow.so")
}

pub fn nccl_otf2() -> PathBuf {
    built("nccl-otf2")
}

pub fn plugin_host() -> PathBuf {
    built("plugin-host")
}

pub fn echo_plugin() -> PathBuf {
    built("libnccl_profiler_echo.so")
}

pub fn empty_plugin() -> PathBuf {
    built("libnccl_profiler_empty.so")
}

pub fn nccl_stand_in() -> PathBuf {
    built("libnccl_stand_in.so")
}

pub fn nccl_host() -> PathBuf {
    built("nccl-host")
}

pub fn fake_gpu() -> PathBuf {
    built("libfakegpu.so")
}

/// The double of libcupti: a test links it to a name such as `libcupti.so.13`.
pub fn fake_cupti() -> PathBuf {
    built("libfake_cupti.so")
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The profile's folder in the target directory; tests are in its `deps`.
pub fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.ancestors().nth(2);
    folder.expect("a test lies in target/debug/deps").to_owned()
}

fn built(name: &str) -> PathBuf {
    let path = profile_folder().join(name);
    // `cargo test` builds only the tested package's files; the tool and the hosts are in other packages.
    assert!(path.exists(), "there is no {}: run cargo xtask test", path.display());
    path
}
