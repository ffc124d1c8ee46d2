//! An archive as independent readers see it (`otf2-print` and the Python package `otf2`), and as `nccl-otf2 check`
//! judges it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::built;
use crate::process::{FinishedProcess, run};

#[derive(Debug)]
pub struct Archive {
    anchor: PathBuf,
}

pub type Tally = BTreeMap<String, u64>;

#[derive(Debug, Deserialize)]
pub struct Contents {
    pub locations: Tally,
    /// Communicators, with the names of their members in order.
    pub comms: Vec<(String, Vec<String>)>,
    pub calls: Tally,
    pub operations: Tally,
    /// Ends of collectives by operation and communicator, then by location.
    pub collectives: BTreeMap<String, Tally>,
    /// Regions that were entered or left with `nccl.unfinished` = 1.
    pub unfinished: Tally,
}

impl Archive {
    pub fn open(directory: &Path) -> Self {
        let anchor = directory.join("traces.otf2");
        assert!(anchor.is_file(), "there is no archive {}", anchor.display());
        Self { anchor }
    }

    pub fn anchor(&self) -> &Path {
        &self.anchor
    }

    /// The report of `nccl-otf2 check --json`. Asserts that it exits with 0: there are no faults.
    pub fn check(&self) -> serde_json::Value {
        let mut command = Command::new(built::nccl_otf2());
        command.args(["check", "--json"]).arg(&self.anchor);
        let ended = run(&mut command).with_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }

    /// Asserts that `otf2-print` reads it without complaint and `nccl-otf2 check` finds no fault; returns the report.
    pub fn sound(&self) -> serde_json::Value {
        self.validate();
        let report = self.check();
        assert_eq!(report["faults"], 0, "{}: {report:#}", self.anchor.display());
        report
    }

    /// Asserts that `otf2-print` reads everything without complaint.
    pub fn validate(&self) {
        let ended = self.otf2_print(&["-Werror", "--silent"]);
        let complaint = |line: &&str| {
            let line = line.to_lowercase();
            line.contains("warning") || line.contains("error")
        };
        let complaints: Vec<&str> = ended.stdout.lines().chain(ended.stderr.lines()).filter(complaint).collect();
        assert!(complaints.is_empty(), "{complaints:#?}\n{ended}");
    }

    pub fn properties(&self) -> BTreeMap<String, String> {
        let ended = self.otf2_print(&["-I"]);
        let mut properties = BTreeMap::new();
        let mut name = String::new();
        for line in ended.stdout.lines() {
            if let Some(found) = line.strip_prefix("Property name") {
                name = found.trim().to_owned();
            } else if let Some(found) = line.strip_prefix("Property value") {
                properties.insert(name.clone(), found.trim().to_owned());
            } else if line.starts_with("Trace identifier") {
                break;
            } else if let Some(value) = properties.get_mut(&name) {
                // Values can span several lines.
                value.push('\n');
                value.push_str(line.trim());
            }
        }
        assert!(properties.contains_key("NCCL::PARTS"), "{ended}");
        properties
    }

    pub fn definitions(&self) -> String {
        self.otf2_print(&["-G"]).stdout
    }

    pub fn events(&self) -> String {
        self.otf2_print(&[]).stdout
    }

    /// A count from the properties; counts of 0 are left out of the archive.
    pub fn count(&self, name: &str) -> u64 {
        let properties = self.properties();
        let value = properties.get(&format!("NCCL::COUNT::{name}"));
        value.map_or(0, |value| value.trim().parse().expect("a number"))
    }

    /// A count of GPU work; counts of 0 are left out of the archive.
    pub fn gpu_count(&self, name: &str) -> u64 {
        let properties = self.properties();
        let value = properties.get(&format!("NCCL::GPU::{name}"));
        value.map_or(0, |value| value.trim().parse().expect("a number"))
    }

    pub fn contents(&self, python: &Path) -> Contents {
        let mut command = Command::new(python);
        command.arg(built::root().join("tests/support/contents.py")).arg(&self.anchor);
        let ended = run(&mut command).with_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
    }

    /// Asserts that `otf2-print`, the Python package and `nccl-otf2 print` agree on every event; returns their report.
    pub fn readers_agree(&self, python: &Path) -> serde_json::Value {
        let ended = run(Self::readers(python).arg("--json").arg(&self.anchor)).with_code(0);
        let reports: serde_json::Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"));
        reports[0].clone()
    }

    pub fn readers(python: &Path) -> Command {
        let mut command = Command::new(python);
        command
            .arg("-B")
            .arg(built::root().join("xtask/python/compare_readers.py"))
            .arg("--nccl-otf2")
            .arg(built::nccl_otf2());
        command
    }

    fn otf2_print(&self, options: &[&str]) -> FinishedProcess {
        run(Command::new("otf2-print").args(options).arg(&self.anchor)).with_code(0)
    }
}

/// Definitions and events of an archive by name. The anchor is left out: OTF2 writes a random number into it.
pub fn trace_files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let traces = std::fs::read_dir(directory.join("traces")).expect("event files");
    let traces = traces.map(|file| file.expect("an entry").path());
    let files = traces.chain([directory.join("traces.def")]).map(|path| {
        let name = path.strip_prefix(directory).expect("below").to_owned();
        (name, std::fs::read(&path).expect("read"))
    });
    files.collect()
}
