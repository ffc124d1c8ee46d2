//! `merge`: NCCL's events in a trace of Score-P's.

mod account;
mod calls;
mod content;
mod many;
mod processes;
mod scalasca;
mod several;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Output;

use otf2::{Archive, Event, LocationRef};
use serde_json::Value;

use super::nccl::Nccl;
use super::score_p::ScoreP;
use super::support::{Scratch, text};

fn open(directory: &Path) -> Archive {
    Archive::open(&directory.join("traces.otf2")).expect("an archive")
}

fn events(archive: &Archive) -> BTreeMap<LocationRef, Vec<Event>> {
    let definitions = archive.definitions().expect("definitions");
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut events: BTreeMap<LocationRef, Vec<Event>> = BTreeMap::new();
    let mut before = 0;
    archive
        .for_each_event(&locations, |location, event| {
            assert!(before <= event.time, "the order of time over all locations");
            before = event.time;
            events.entry(location).or_default().push(event);
            ControlFlow::Continue(())
        })
        .expect("events");
    events
}

/// Writes both archives and merges them.
struct Job {
    scratch: Scratch,
    scorep: PathBuf,
    nccl: PathBuf,
}

impl Job {
    fn new(scorep: &ScoreP, nccl: &Nccl) -> Self {
        let scratch = Scratch::new();
        Self { scorep: scorep.write(&scratch.join("scorep")), nccl: nccl.write(&scratch.join("nccl")), scratch }
    }

    fn merge(&self, options: &[&str]) -> Output {
        let mut tool = self.scratch.tool();
        tool.arg("merge").args(options);
        tool.args([&self.scorep, &self.nccl]);
        tool.output().expect("the tool runs")
    }

    fn merged(&self) -> PathBuf {
        let output = self.merge(&["-o", "out"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
        self.scratch.join("out")
    }

    fn refused(&self, options: &[&str], reason: &str) {
        let output = self.merge(options);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        assert!(said.contains(reason), "{reason}: {said}");
    }

    fn json(&self, options: &[&str]) -> Value {
        let output = self.merge(&[&["--json"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

fn checked(scratch: &Scratch, directory: &Path) {
    let output = scratch.tool().arg("check").arg("--strict").arg(directory).output();
    let output = output.expect("the tool runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// NCCL's location of a rank.
fn ours(rank: u64) -> LocationRef {
    LocationRef::new(0x8000_0000 << 32 | rank)
}
