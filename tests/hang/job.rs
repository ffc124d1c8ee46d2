//! A job of real NCCL that hangs, and the reports of `nccl-otf2 hang` on it.

use serde_json::Value;
use whole_plugin::process::{FinishedProcess, Running, run, start, wait_for};
use whole_plugin::scratch::Scratch;

/// How long the jobs live if the test does not kill them.
const AT_MOST: &str = "900";

/// A job that hangs, with the directory that it records in.
pub(crate) struct Hanging {
    scratch: Scratch,
    job: Running,
}

impl Hanging {
    /// Starts a job with these variables; nothing where its NCCL is not there.
    pub(crate) fn start(release: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Option<Self> {
        let scratch = Scratch::new();
        let mut job = scratch.nccl(release, &[&["--exact", "--timeout", AT_MOST], arguments].concat())?;
        Some(Self { job: start(job.envs(variables.iter().copied())), scratch })
    }

    pub(crate) fn look(&self, arguments: &[&str]) -> FinishedProcess {
        run(self.scratch.tool(&["hang"]).arg(self.scratch.out()).args(arguments))
    }

    pub(crate) fn top(&self) -> Value {
        let ended = run(self.scratch.tool(&["top", "--json"]).arg(self.scratch.out())).with_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }

    /// Looks until the report is as expected.
    pub(crate) fn until(&self, after: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        wait_for("such report", || {
            // Nothing to read before the first process records.
            let ended = self.look(&["--json", "--after", after]);
            let report = serde_json::from_str::<Value>(&ended.stdout).unwrap_or_default();
            let code = i32::from(report["verdict"]["found"] == true);
            is_it(&report).then(|| {
                let _code = ended.with_code(code);
                report
            })
        })
    }

    /// Kills everything, launcher first: its workers go with it. What is left is the directory.
    pub(crate) fn kill(self) -> Dead {
        self.job.kill();
        let dead = Dead(self.scratch);
        wait_for("end of the workers", || {
            let report = dead.report("60");
            let processes = report["processes"].as_array()?;
            (!processes.iter().any(|one| one["process_state"] == "running")).then_some(())
        });
        dead
    }
}

pub(crate) struct Dead(Scratch);

impl Dead {
    pub(crate) const fn scratch(&self) -> &Scratch {
        &self.0
    }

    pub(crate) fn report(&self, after: &str) -> Value {
        let ended = run(self.0.tool(&["hang", "--json", "--after", after]).arg(self.0.out()));
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }
}

/// The suspect: reason and rank, and how many ranks it blocks.
pub(crate) fn suspect(report: &Value) -> (&str, u64, u64) {
    let first = &report["suspects"][0];
    (
        first["reason"].as_str().unwrap_or("none"),
        first["rank"].as_u64().unwrap_or(u64::MAX),
        first["ranks_blocked"].as_u64().unwrap_or(0),
    )
}

/// Whether the suspect is one for this reason.
pub(crate) fn has_reason(reason: &'static str) -> impl Fn(&Value) -> bool {
    move |report| suspect(report).0 == reason
}
