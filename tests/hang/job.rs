//! Jobs of real NCCL that hang, and what `nccl-otf2 hang` says of them.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::built;
use crate::machine::nccl_library;
use crate::process::{Ended, Running, run, start};
use crate::scratch::Scratch;

const LIMIT: Duration = Duration::from_secs(240);
/// How long the jobs live if the test does not kill them.
const AT_MOST: &str = "200";

/// A job that hangs, with the directory that it records in.
#[derive(Debug)]
pub struct Hanging {
    scratch: Scratch,
    job: Running,
}

impl Hanging {
    /// Starts a job; nothing where its NCCL is not there.
    #[must_use]
    pub fn start(version: &str, events: &str, arguments: &[&str]) -> Option<Self> {
        Self::start_with(version, &[("NCCL_OTF2_EVENTS", events)], arguments)
    }

    /// The same, with these variables.
    #[must_use]
    pub fn start_with(version: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Option<Self> {
        let library = nccl_library(version)?;
        let scratch = Scratch::new();
        let mut job = scratch.command(built::nccl_host());
        job.arg("--lib").arg(library);
        job.arg(format!("--fake-gpu={}", built::fake_gpu().display()));
        job.args(["--exact", "--timeout", AT_MOST]).args(arguments);
        job.env("NCCL_PROFILER_PLUGIN", built::plugin());
        job.envs(variables.iter().copied());
        Some(Self { job: start(&mut job), scratch })
    }

    /// What `hang` says just now.
    #[must_use]
    pub fn look(&self, arguments: &[&str]) -> Ended {
        let out = self.scratch.out();
        let mut command = self.scratch.plain(built::nccl_otf2());
        run(command.arg("hang").arg(out).args(arguments))
    }

    /// Looks until the report is as expected.
    #[must_use]
    pub fn until(&self, after: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            // Nothing to read before the first process records.
            let ended = self.look(&["--json", "--after", after]);
            let report = serde_json::from_str::<Value>(&ended.stdout).unwrap_or_default();
            if is_it(&report) {
                let code = i32::from(report["verdict"]["found"] == true);
                let _code = ended.with_code(code);
                return report;
            }
            assert!(began.elapsed() < LIMIT, "it never came: {ended}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Kills everything, launcher first: its workers go with it. What is left is the directory.
    #[must_use]
    pub fn kill(self) -> Dead {
        let mut kill = Command::new("kill");
        let _sent = run(kill.arg("-9").arg(self.job.id().to_string())).with_code(0);
        let _killed = self.job.wait(LIMIT).by_signal(9);
        let dead = Dead(self.scratch);
        let began = Instant::now();
        while dead.report("60")["processes"]
            .as_array()
            .is_none_or(|all| all.iter().any(|one| one["process_state"] == "running"))
        {
            assert!(began.elapsed() < LIMIT, "the workers live on");
            std::thread::sleep(Duration::from_millis(20));
        }
        dead
    }
}

/// What a job left.
#[derive(Debug)]
pub struct Dead(Scratch);

impl Dead {
    /// What `hang` says.
    #[must_use]
    pub fn report(&self, after: &str) -> Value {
        let mut command = self.0.plain(built::nccl_otf2());
        command.arg("hang").arg(self.0.out());
        let ended = run(command.args(["--json", "--after", after]));
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }
}

/// The suspect: reason and rank, and how many ranks it blocks.
#[must_use]
pub fn suspect(report: &Value) -> (&str, u64, u64) {
    let first = &report["suspects"][0];
    (
        first["reason"].as_str().unwrap_or("none"),
        first["rank"].as_u64().unwrap_or(u64::MAX),
        first["ranks_blocked"].as_u64().unwrap_or(0),
    )
}

/// Whether the suspect is one for this reason.
pub fn has_reason(reason: &'static str) -> impl Fn(&Value) -> bool {
    move |report| suspect(report).0 == reason
}
