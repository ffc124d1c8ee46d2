//! Builds what the tests need and runs the program.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// An NCCL library to test with.
pub(crate) struct Release {
    /// e.g. 22809
    pub(crate) code: u32,
    pub(crate) name: String,
    pub(crate) lib: PathBuf,
}

fn version_code(name: &str) -> Option<u32> {
    let mut parts = name.split('.').map(|part| part.parse::<u32>().ok());
    Some(parts.next()?? * 10000 + parts.next()?? * 100 + parts.next()??)
}

/// The releases there are, oldest first.
pub(crate) fn releases() -> Vec<Release> {
    let dir = std::env::var_os("NCCL_OTF2_TEST_NCCL_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache/nccl-profiler-otf2/nccl")))
        .expect("NCCL_OTF2_TEST_NCCL_DIR or HOME is set");
    let mut found: Vec<Release> = std::fs::read_dir(&dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let lib = entry.path().join("libnccl.so.2");
            let code = version_code(&name)?;
            lib.exists().then_some(Release { code, name, lib })
        })
        .collect();
    found.sort_by_key(|release| release.code);
    if found.is_empty() {
        let text = format!("no NCCL library in {} (NCCL_OTF2_TEST_NCCL_DIR)", dir.display());
        assert!(std::env::var_os("CI").is_none(), "{text}");
        println!("SKIPPED: {text}");
    }
    found
}

/// A library of another package, built like the program under test.
fn build(package: &str, file: &str) -> PathBuf {
    let profile_dir = Path::new(env!("CARGO_BIN_EXE_nccl-host")).parent().expect("in a directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", package, "--target-dir"]);
    cargo.arg(profile_dir.parent().expect("in the target directory"));
    if profile_dir.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo runs").success(), "{package} does not build");
    profile_dir.join(file)
}

/// The stand-in.
pub(crate) fn fake_gpu() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("fake-gpu", "libfakegpu.so"))
}

/// Builds a library from a C source.
pub(crate) fn compile(source: &Path, library: &Path) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(source)
        .args(["-lpthread", "-ldl"])
        .status()
        .expect("a C compiler (CC, or cc)");
    assert!(status.success(), "{} does not build", source.display());
}

/// One run of the program, with a directory for what it writes.
pub(crate) struct Run {
    dir: tempfile::TempDir,
    command: Command,
}

impl Run {
    pub(crate) fn new(release: &Release, options: &[&str]) -> Run {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-host"));
        command
            .arg(format!("--fake-gpu={}", fake_gpu().display()))
            .arg("--lib")
            .arg(&release.lib)
            .arg("--log")
            .arg(dir.path().join("calls"))
            .args(options);
        // The settings under test must not depend on whoever runs it.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("NCCL_") {
                command.env_remove(name);
            }
        }
        Run { dir, command }
    }

    pub(crate) fn env(&mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) {
        self.command.env(name, value);
    }

    pub(crate) fn args(&mut self, more: &[&str]) -> &mut Run {
        self.command.args(more);
        self
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn output(&mut self) -> Output {
        self.command.output().expect("nccl-host runs")
    }

    /// Runs it and expects this exit status; what it printed.
    pub(crate) fn expect_status(&mut self, status: i32) -> String {
        let output = self.output();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{:?}: {text}", self.command);
        text
    }

    /// The lines of the log of one process.
    pub(crate) fn log(&self, process: usize) -> Vec<Value> {
        let path = self.dir().join(format!("calls.{process}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(text.ends_with('\n'), "the last line of {} is not whole", path.display());
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
    }
}

/// The lines of one kind.
pub(crate) fn of_kind<'a>(log: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |line| line["kind"] == kind)
}
