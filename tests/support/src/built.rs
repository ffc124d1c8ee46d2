//! The built files, in the target directory of the running test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;

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

/// `cargo test -p NAME` builds that package's files only; the plugin, the tool and the hosts are in other packages.
fn built(name: &str) -> PathBuf {
    const BUILD: &str = "run cargo build --workspace --lib --bins --examples";
    static CURRENT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let path = profile_folder().join(name);
    let mut current = CURRENT.lock();
    if !current.contains(name) {
        let Ok(built) = path.metadata().and_then(|file| file.modified()) else {
            panic!("there is no {}: {BUILD}", path.display())
        };
        if let Some(source) = sources(&path).into_iter().find(|source| is_newer(source, built)) {
            panic!("{} is older than {}: {BUILD}", path.display(), source.display());
        }
        current.insert(name.to_owned());
    }
    path
}

/// The sources of a built file, which cargo lists beside it, except those that a build script wrote.
fn sources(built: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_to_string(built.with_extension("d")).unwrap_or_default();
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources).trim_end();
    // A space within a path is written `\ `.
    let sources = sources.replace("\\ ", "\0");
    let paths = sources.split(' ').map(|source| PathBuf::from(source.replace('\0', " ")));
    paths.filter(|source| !source.starts_with(profile_folder())).collect()
}

fn is_newer(source: &Path, built: SystemTime) -> bool {
    source.metadata().and_then(|file| file.modified()).is_ok_and(|changed| changed > built)
}
