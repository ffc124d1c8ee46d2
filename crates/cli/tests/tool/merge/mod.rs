//! `merge`: NCCL's events in a Score-P trace.

mod account;
mod calls;
mod content;
mod processes;
mod scalasca;
mod several;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use otf2::{Archive, Event, EventKind, LocationRef};
use serde_json::Value;

use super::made_up::Moment;
use super::nccl::Nccl;
use super::score_p::ScoreP;
use super::support::{Scratch, ToolOutput};

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
            events.entry(location).or_default().push(event.clone());
            ControlFlow::Continue(())
        })
        .expect("events");
    events
}

/// A Score-P trace and an NCCL archive, written to be merged.
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

    fn merge(&self, options: &[&str]) -> ToolOutput {
        ToolOutput::run(self.scratch.tool().arg("merge").args(options).args([&self.scorep, &self.nccl]))
    }

    fn merged(&self) -> PathBuf {
        assert_eq!(self.merge(&["-o", "out"]).with_code(0).stderr, "");
        self.scratch.join("out")
    }

    fn refused(&self, options: &[&str], reason: &str) {
        self.merge(options).with_code(2).assert_prints(reason);
    }

    fn json(&self, options: &[&str]) -> Value {
        self.merge(&[&["--json"], options].concat()).with_code(0).json()
    }
}

fn checked(scratch: &Scratch, directory: &Path) {
    ToolOutput::run(scratch.tool().arg("check").arg("--strict").arg(directory)).with_code(0);
}

/// The events without a run of `number` from the first that `is_first` accepts, and that run.
fn without(events: &[Event], number: usize, is_first: impl Fn(&EventKind) -> bool) -> (Vec<Event>, Vec<Event>) {
    let mut others = events.to_vec();
    let at = others.iter().position(|event| is_first(&event.kind)).expect("an event of NCCL's");
    let ours = others.drain(at..at + number).collect();
    (others, ours)
}

/// Asserts that each event is within `most` ticks of the time when it happened.
fn happened(events: &[&Event], truth: &[Moment], scorep: &ScoreP, most: u64) {
    for (event, truth) in events.iter().zip(truth) {
        let truth = scorep.time(*truth);
        assert!(event.time.abs_diff(truth) <= most, "{:?}: {} for {truth}", scorep.timer, event.time);
    }
}

/// The location of a rank in NCCL's archive.
fn ours(rank: u64) -> LocationRef {
    LocationRef::new(0x8000_0000 << 32 | rank)
}
