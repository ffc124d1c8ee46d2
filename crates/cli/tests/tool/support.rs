//! A clean environment and a fresh directory for each test.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// Variables that a developer's shell or a batch job may set and that change the tool's behaviour.
const HOSTILE: &str = "\
    NCCL_PROFILER_PLUGIN NCCL_ENV_PLUGIN NCCL_CONF_FILE NVTX_INJECTION64_PATH NCCL_OTF2_NVTX NCCL_OTF2_CHAIN \
    NCCL_OTF2_DIR NCCL_OTF2_JOB NCCL_OTF2_EVENTS NCCL_OTF2_MODE NCCL_OTF2_FINALIZE \
    NCCL_OTF2_KEEP_JOURNAL RANK WORLD_SIZE PMI_RANK PMIX_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID SLURM_JOB_ID \
    SLURM_STEP_ID PBS_JOBID LSB_JOBID FLUX_JOB_ID COBALT_JOBID JOB_ID TORCHELASTIC_RUN_ID PMIX_NAMESPACE";

/// A library that looks like the plugin: it has its table, and the name of one of its variables.
static PLUGIN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (source, library) = (folder.path().join("plugin.c"), folder.path().join("plugin.so"));
    fs::write(&source, "int ncclProfiler_v5; const char *variable = \"NCCL_OTF2_DIR\";\n").expect("written");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("a C compiler").success());
    fs::read(library).expect("made")
});

/// A temporary working directory.
pub(crate) struct Scratch {
    directory: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("plugin.so"), &*PLUGIN).expect("a plugin file");
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn tool(&self) -> Command {
        let mut command = Command::cargo_bin("nccl-otf2").expect("the tool is built");
        command.current_dir(self.path());
        for variable in HOSTILE.split_whitespace() {
            command.env_remove(variable);
        }
        command
    }

    /// Runs the tool to its end.
    pub(crate) fn ends<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> ToolOutput {
        ToolOutput::run(self.tool().args(arguments))
    }

    /// Runs `nccl-otf2 run` to its end.
    pub(crate) fn ran(&self, options: &[&str], script: &str) -> ToolOutput {
        ToolOutput::run(&mut self.run(options, script))
    }

    /// `nccl-otf2 run` with these options and a shell script.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.tool();
        command.args(["run", "--plugin", "plugin.so"]).args(options).args(["--", "sh", "-c", script]);
        command
    }
}

/// How the tool ended, and what it printed.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    /// `None` if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ToolOutput {
    pub(crate) fn run(command: &mut Command) -> Self {
        let output = command.output().expect("ran");
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Asserts that it printed these words.
    #[track_caller]
    pub(crate) fn assert_prints(&self, words: &str) {
        assert!(self.printed().contains(words), "{words}: {self:?}");
    }

    pub(crate) fn printed(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
