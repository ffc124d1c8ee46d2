//! `merge`: NCCL's events in a trace of Score-P's.

mod account;
mod calls;
mod content;
mod processes;
mod scalasca;
mod several;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Output;

use otf2::{Archive, Event, EventKind, LocationRef};
use serde_json::Value;

use super::made_up::Moment;
use super::nccl::Nccl;
use super::score_p::ScoreP;
use super::support::{Scratch, text};

fn open(directory: &Path) -> Archive {
    Archive::open(&directory.join("traces.otf2")).expect("an archive")
}

fn events(archive: &Archive) -> BTreeMap<LocationRef, Vec<Event>> {
    let locations: Vec<LocationRef> = archive.definitions().expect("definitions").locations.into_keys().collect();
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

/// The events without some that follow each other, and these: from the first event that `is_first` on.
fn without(events: &[Event], number: usize, is_first: impl Fn(&EventKind) -> bool) -> (Vec<Event>, Vec<Event>) {
    let mut others = events.to_vec();
    let at = others.iter().position(|event| is_first(&event.kind)).expect("an event of NCCL's");
    let ours = others.drain(at..at + number).collect();
    (others, ours)
}

/// Each event is within `most` ticks of the time when it happened.
fn happened(events: &[&Event], truth: &[Moment], scorep: &ScoreP, most: u64) {
    for (event, truth) in events.iter().zip(truth) {
        let truth = scorep.time(*truth);
        assert!(event.time.abs_diff(truth) <= most, "{:?}: {} for {truth}", scorep.timer, event.time);
    }
}

/// NCCL's location of a rank.
fn ours(rank: u64) -> LocationRef {
    LocationRef::new(0x8000_0000 << 32 | rank)
}
