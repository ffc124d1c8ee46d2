//! The environment that a job started here would have.

use std::path::PathBuf;

use anyhow::Result;
use journal::part::environment::JobEnvironment;
use rustix::system::uname;
use settings::Config;

use super::report::Findings;
use crate::plugin;
use crate::slot::{Loader, Variables};

pub(super) struct Environment {
    pub(super) variables: Variables,
    pub(super) config: Config,
    pub(super) job: JobEnvironment,
    pub(super) host: String,
    pub(super) loader: Loader,
    pub(super) plugin: Result<PathBuf>,
}

impl Environment {
    pub(super) fn look() -> Self {
        let variables = Variables::of_process();
        Self {
            config: Config::from_variables(variables.pairs().into_iter()),
            variables,
            job: JobEnvironment::of_process(),
            host: uname().nodename().to_string_lossy().into_owned(),
            loader: Loader::of_process(),
            plugin: plugin::find(None),
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|setting| setting.value.as_str())
    }

    /// Number of recording processes of the job on this host, if the launcher tells; else 1.
    pub(super) fn processes(&self) -> u64 {
        self.job.local_size.map_or(1, u64::from).max(1)
    }
}

pub(super) fn settings(here: &Environment, findings: &mut Findings) {
    for remark in &here.config.remarks {
        findings.problem("settings", remark.clone(), "docs/REFERENCE.md §1 lists all variables and their values");
    }
    if !here.config.enabled {
        findings.warning("settings", "NCCL_OTF2_MODE=off: nothing is recorded", "unset it to record");
    }
    let job = &here.job;
    let number = |number: Option<u32>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    if let Some(launcher) = &job.launcher {
        findings.ok("launcher", format!("{launcher}: rank {} of {}", number(job.rank), number(job.size)));
    }
    if job.job.is_none() && here.variable("NCCL_OTF2_DIR").is_none() {
        let text = "no job id is in the environment, and NCCL_OTF2_DIR is not set: each process would choose a directory by its own time";
        findings.note("launcher", text, "name one for all: NCCL_OTF2_DIR, or nccl-otf2 run -o DIR");
    }
}
