//! A job of three processes under `nccl-otf2 run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::process::{FinishedProcess, LIMIT, Running, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use super::ways::{Way, script};

/// What a launcher does: it starts the processes, waits for them, and takes them with it when it is ended.
const LAUNCHER: &str = "trap 'kill -9 $processes 2>/dev/null; wait; exit 143' TERM
for rank in 0 1 2; do $HOST script rank$rank --plugin $PLUGIN & processes=\"$processes $!\"; done
wait
sleep 600 & processes=\"$processes $!\"; wait
";

pub(super) struct Job {
    scratch: Scratch,
    run: Running,
    /// Processes that record until the end, or until they were lost.
    processes: usize,
}

pub(super) fn tool(scratch: &Scratch, verb: &str) -> Command {
    scratch.tool(&[verb])
}

pub(super) fn report(path: &Path) -> Value {
    let ended = run(Command::new(built::nccl_otf2()).arg("hang").arg("--json").arg(path));
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}

/// The same of waits of this length.
pub(super) fn report_after(path: &Path, seconds: &str) -> Value {
    let mut command = Command::new(built::nccl_otf2());
    let ended = run(command.arg("hang").arg(path).args(["--json", "--after", seconds]));
    // Nothing to read before the first process records.
    serde_json::from_str(&ended.stdout).unwrap_or_default()
}

/// Three ranks that run these scripts at the same time, to the end of their processes.
pub(super) fn recorded_together(scripts: [&str; 3], variables: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new();
    let begin = |(rank, words)| {
        let mut host = scratch.rank(rank, 3, &script(rank, words));
        start(host.env("NCCL_OTF2_EVENTS", "standard").envs(variables.iter().copied()))
    };
    let running: Vec<Running> = scripts.into_iter().enumerate().map(begin).collect();
    running.into_iter().for_each(|one| drop(one.wait(LIMIT)));
    scratch
}

/// The part of the process that the launcher calls so.
pub(super) fn part_of(scratch: &Scratch, rank: u64) -> PathBuf {
    let parts = fs::read_dir(scratch.out().join("parts")).expect("there").flatten().map(|part| part.path());
    let is_it = |part: &PathBuf| {
        let process = fs::read(part.join("process.json")).expect("there");
        serde_json::from_slice::<Value>(&process).is_ok_and(|process| process["environment"]["rank"] == rank)
    };
    parts.into_iter().find(is_it).expect("recorded")
}

pub(super) fn verdict(report: &Value) -> &str {
    report["verdict"]["kind"].as_str().unwrap_or_default()
}

/// The first suspect: reason and rank.
pub(super) fn suspect(report: &Value) -> (&str, u64) {
    let first = &report["suspects"][0];
    (first["reason"].as_str().unwrap_or("none"), first["rank"].as_u64().unwrap_or(u64::MAX))
}

impl Job {
    pub(super) fn start(way: &Way) -> Self {
        let scratch = Scratch::new();
        for (rank, words) in way.scripts.iter().enumerate() {
            fs::write(scratch.path().join(format!("rank{rank}")), script(rank, words)).expect("written");
        }
        let mut command = scratch.tool(&["run", "--plugin"]);
        command.arg(built::plugin()).arg("--out").arg(scratch.out());
        command.args(["--", "bash", "-c", LAUNCHER]).env("HOST", built::plugin_host()).env("PLUGIN", built::plugin());
        let processes = way.scripts.iter().filter(|words| words.starts_with("world")).count();
        Self { run: start(&mut command), scratch, processes }
    }

    /// Waits until all that record have said what they are to say.
    pub(super) fn wait_until_it_hangs(&self) {
        wait_for("a job that hangs", || {
            let report = report_after(&self.scratch.out(), "0");
            let processes = report["processes"].as_array()?.len();
            let is_there = processes == self.processes && report["verdict"]["found"] == true;
            is_there.then_some(())
        });
    }

    pub(super) const fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub(super) fn report(&self) -> Value {
        report(&self.scratch.out())
    }

    /// Makes a snapshot: of processes that are stopped or dead there is none.
    pub(super) fn dump(&self) -> PathBuf {
        let ended = run(tool(&self.scratch, "dump").arg(self.scratch.out()).args(["--wait", "5"]));
        assert!(ended.stdout.contains("\nHANG: "), "{ended}");
        let snapshots = fs::read_dir(self.scratch.out().join("snapshots")).expect("made");
        snapshots.flatten().map(|entry| entry.path()).next().expect("one")
    }

    pub(super) fn copy(&self) {
        let copy = self.scratch.path().join("copy");
        let _copied = run(Command::new("cp").arg("-r").arg(self.scratch.out()).arg(copy)).with_code(0);
    }

    pub(super) fn kill(self) -> (Scratch, FinishedProcess) {
        self.run.signal("TERM");
        (self.scratch, self.run.wait(LIMIT).with_code(143))
    }
}
