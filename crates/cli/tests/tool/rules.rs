//! For every rule of `nccl-otf2 check`, an archive that breaks it, and only rules that necessarily break with it.

mod account;
mod communication;
mod structure;
mod time;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use otf2::CollectiveOp;
use serde_json::Value;

use super::fixture::{BROADCAST, Fixture, KERNEL, LAUNCH, Step};
use super::support::{Scratch, ToolOutput};

/// A rule and what breaks it.
#[derive(Clone, Copy)]
struct Case {
    rule: &'static str,
    /// Rules that are broken as a consequence.
    also: &'static [&'static str],
    /// Whether the sound archive is of two hosts with aligned clocks.
    is_aligned: bool,
    /// Properties added to the archive.
    properties: &'static [(&'static str, &'static str)],
    /// Spoils a sound archive before it is written.
    spoil: fn(&mut Fixture),
    /// Damages the files of the archive in this directory.
    damage: fn(&Path),
}

const fn spoiled(rule: &'static str, spoil: fn(&mut Fixture)) -> Case {
    Case { rule, also: &[], is_aligned: false, properties: &[], spoil, damage: |_| {} }
}

const fn damaged(rule: &'static str, damage: fn(&Path)) -> Case {
    Case { damage, ..spoiled(rule, |_| {}) }
}

/// A sound archive of two hosts with aligned clocks, corrupted.
const fn misaligned(rule: &'static str, spoil: fn(&mut Fixture)) -> Case {
    Case { is_aligned: true, ..spoiled(rule, spoil) }
}

/// An archive with other statements.
const fn stated(rule: &'static str, properties: &'static [(&'static str, &'static str)]) -> Case {
    Case { properties, ..spoiled(rule, |_| {}) }
}

impl Case {
    const fn with(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
}

/// Replaces bytes that occur once in a file.
fn patch(file: &Path, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len(), "chunks have the lengths they say");
    let mut bytes = fs::read(file).expect("read");
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from).map(|(place, _)| place).collect();
    let [place] = places[..] else {
        panic!("{from:x?} is at {places:?} of {}", file.display());
    };
    bytes[place..place + to.len()].copy_from_slice(to);
    fs::write(file, bytes).expect("written");
}

/// Changes definitions that the writer refuses to write: a byte for the record type, a byte for its length, then its
/// numbers, each preceded by its byte count; 0 and "undefined" take one byte.
fn patch_definitions(trace: &Path, from: &[u8], to: &[u8]) {
    patch(&trace.join("traces.def"), from, to);
    without_checksum(trace);
}

/// Makes it an archive of a writer that states no checksum.
fn without_checksum(trace: &Path) {
    patch(&trace.join("traces.otf2"), b"DEFINITIONS_CHECKSUM", b"DEFINITIONS_HAD_ONE_");
}

/// Replaces the collective of a rank that ends at a time.
fn end(fixture: &mut Fixture, rank: usize, time: u64, collective: (CollectiveOp, Option<u32>, u64, u64)) {
    let (op, root, sent, received) = collective;
    let is_end = |step: &Step| matches!(step, Step::End(at, ..) if *at == time);
    set(fixture, rank, is_end, Step::End(time, op, root, sent, received));
}

/// Removes the record of the broadcast from rank 1.
fn without_broadcast(fixture: &mut Fixture) {
    fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
}

fn set(fixture: &mut Fixture, rank: usize, wanted: impl Fn(&Step) -> bool, step: Step) {
    let mut steps = fixture.ranks[rank].iter_mut();
    *steps.find(|step| wanted(step)).expect("such a step") = step;
}

/// Rank 1's broadcast is timed by a kernel that runs from `from` to `until`, and has a launch.
fn timed_by_kernel(fixture: &mut Fixture, from: u64, until: u64) {
    let is_broadcast = |step: &Step| matches!(step, Step::Enter(300, ..));
    set(fixture, 1, is_broadcast, Step::EnterByKernels(300, BROADCAST));
    let launch = [Step::EnterLaunch(455, 77), Step::Leave(455, LAUNCH)];
    fixture.ranks[1].extend(launch);
    let kernel = Step::EnterKernel(from, BROADCAST, 300, 77);
    fixture.channel.extend([kernel, Step::Leave(until, KERNEL)]);
    fixture.property("NCCL::GPU::KERNELS_JOINED", "1");
}

/// The cases of all rules: the first for each rule, and further ones.
fn cases() -> [(&'static [Case], &'static [Case]); 4] {
    [
        (structure::CASES, structure::OTHER_CASES),
        (communication::CASES, communication::OTHER_CASES),
        (time::CASES, time::OTHER_CASES),
        (account::CASES, account::OTHER_CASES),
    ]
}

fn rules(scratch: &Scratch) -> Vec<Value> {
    let listed = scratch.ends(["check", "--rules", "--json"]).with_code(0).json();
    listed.as_array().expect("rules").clone()
}

#[test]
fn every_rule_has_an_archive_that_breaks_it() {
    let mut wrong = Vec::new();
    let listed = rules(&Scratch::new());
    for case in cases().into_iter().flat_map(|(one, others)| [one, others].concat()) {
        let scratch = Scratch::new();
        let mut fixture = if case.is_aligned { Fixture::aligned() } else { Fixture::sound() };
        case.properties.iter().for_each(|(name, value)| fixture.property(name, value));
        (case.spoil)(&mut fixture);
        let trace = fixture.write(scratch.path());
        (case.damage)(&trace);
        let ended = ToolOutput::run(scratch.tool().args(["check", "--json"]).arg(&trace));
        let report = ended.json();
        let found: BTreeSet<&str> = report["rules"].as_object().expect("rules").keys().map(String::as_str).collect();
        let expected: BTreeSet<&str> = case.also.iter().copied().chain([case.rule]).collect();
        let is_fault = |rule: &&Value| rule["severity"] == "fault";
        let faults = listed.iter().filter(is_fault).filter_map(|rule| rule["number"].as_str());
        let code = i32::from(faults.into_iter().any(|number| expected.contains(number)));
        if found != expected || ended.code != Some(code) {
            wrong.push(format!("{}: {expected:?} expected, {:?}: {:#}", case.rule, ended.code, report["findings"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the calls of jobs: their archives are in `tests/hang/scenarios.rs`.
const OF_CALLS: [&str; 5] = ["C21", "C22", "C23", "C24", "C25"];

#[test]
fn the_rules_that_are_listed_are_those_that_are_tested() {
    let listed = rules(&Scratch::new());
    let listed = listed.iter().filter_map(|rule| rule["number"].as_str());
    let listed: Vec<&str> = listed.filter(|rule| !OF_CALLS.contains(rule)).collect();
    let tested = cases().into_iter().flat_map(|(cases, _)| cases);
    let mut tested: Vec<&str> = tested.map(|case| case.rule).collect();
    // A rule may have several cases, one after the other.
    tested.dedup();
    assert_eq!(listed, tested);
}
