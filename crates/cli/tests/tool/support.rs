//! A clean environment and a fresh directory for each test.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// Variables that a developer's shell or a batch job may have, and that change what the tool does.
const HOSTILE: &[&str] = &[
    "NCCL_PROFILER_PLUGIN",
    "NCCL_OTF2_DIR",
    "NCCL_OTF2_JOB",
    "NCCL_OTF2_EVENTS",
    "NCCL_OTF2_MODE",
    "NCCL_OTF2_FINALIZE",
    "NCCL_OTF2_KEEP_JOURNAL",
    "RANK",
    "WORLD_SIZE",
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "SLURM_PROCID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "COBALT_JOBID",
    "JOB_ID",
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
];

/// A place to work in.
pub(crate) struct Scratch {
    directory: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::write(directory.path().join("plugin.so"), "not really").expect("a plugin file");
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
        for variable in HOSTILE {
            command.env_remove(variable);
        }
        command
    }

    /// `nccl-otf2 run` with these options and a shell script.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.tool();
        command.args(["run", "--plugin", "plugin.so"]).args(options).args(["--", "sh", "-c", script]);
        command
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
