//! Every rule of `nccl-otf2 check` has an archive that breaks it, and only what goes with it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use otf2::{AttributeType, CollectiveOp, MetricValue, RegionRef};
use serde_json::Value;

use super::clock_rules;
use super::fixture::{
    ALL_REDUCE, BROADCAST, CHANNEL, Fixture, KERNEL, LAUNCH, RECEIVE, Said, Step,
};
use super::support::{Scratch, text};

/// A rule and what breaks it.
pub(crate) struct Case {
    pub(crate) rule: &'static str,
    /// What is broken with it.
    pub(crate) also: &'static [&'static str],
    /// Spoils a sound archive before it is written.
    pub(crate) spoil: fn(&mut Fixture),
    /// Damages the files of the archive in this directory.
    pub(crate) damage: fn(&Path),
}

pub(crate) const fn spoiled(rule: &'static str, spoil: fn(&mut Fixture)) -> Case {
    Case {
        rule,
        also: &[],
        spoil,
        damage: |_| {},
    }
}

const fn damaged(rule: &'static str, damage: fn(&Path)) -> Case {
    Case {
        rule,
        also: &[],
        spoil: |_| {},
        damage,
    }
}

impl Case {
    pub(crate) const fn with(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
}

/// Replaces bytes that are in a file once.
pub(crate) fn patch(file: &Path, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len(), "chunks have the lengths they say");
    let mut bytes = fs::read(file).expect("read");
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| *window == from)
        .map(|(place, _)| place)
        .collect();
    let [place] = places[..] else {
        panic!("{from:x?} is at {places:?} of {}", file.display());
    };
    bytes[place..place + to.len()].copy_from_slice(to);
    fs::write(file, bytes).expect("written");
}

/// Changes definitions that the writer refuses to write: one byte of the type of the record, one of its
/// length, then its numbers, each with how many bytes it has; 0 and "undefined" are one byte.
fn patch_definitions(trace: &Path, from: &[u8], to: &[u8]) {
    patch(&trace.join("traces.def"), from, to);
}

fn set(fixture: &mut Fixture, rank: usize, wanted: impl Fn(&Step) -> bool, step: Step) {
    let mut steps = fixture.ranks[rank].iter_mut();
    *steps.find(|step| wanted(step)).expect("such a step") = step;
}

/// The broadcast of rank 1 is timed by a kernel that runs then, and launched.
fn timed_by_kernel(fixture: &mut Fixture, from: u64, until: u64) {
    let is_broadcast = |step: &Step| matches!(step, Step::Enter(300, ..));
    set(
        fixture,
        1,
        is_broadcast,
        Step::EnterByKernels(300, BROADCAST),
    );
    let launch = [Step::EnterLaunch(455, 77), Step::Leave(455, LAUNCH)];
    fixture.ranks[1].extend(launch);
    let kernel = Step::EnterKernel(from, BROADCAST, 300, 77);
    fixture.channel.extend([kernel, Step::Leave(until, KERNEL)]);
    fixture.property("NCCL::GPU::KERNELS_JOINED", "1");
}

const CASES: &[Case] = &[
    damaged("S01", |trace| {
        fs::remove_file(trace.join("traces.def")).expect("removed");
    }),
    damaged("S02", |trace| {
        patch(
            &trace.join("traces.otf2"),
            &[1, 1, 3, 0, 0, 0],
            &[1, 1, 4, 0, 0, 0],
        );
    }),
    // The resolution, 10⁹.
    damaged("S03", |trace| {
        patch_definitions(trace, &[4, 0, 0xca, 0x9a, 0x3b], &[4, 0, 0, 0, 0]);
    }),
    // The name of the second attribute.
    damaged("S04", |trace| {
        patch_definitions(trace, &[0x0b, 6, 1, 1, 1, 11], &[0x0b, 6, 1, 1, 1, 99]);
    }),
    // A string that nothing refers to.
    damaged("S05", |trace| {
        patch_definitions(trace, b"\x0a\x18\x01\x16lane", b"\x0a\x18\x01\x63lane");
    }),
    // A node of the system tree that is in itself.
    damaged("S06", |trace| {
        patch_definitions(
            trace,
            &[0x0c, 6, 0, 1, 2, 1, 1, 0xff],
            &[0x0c, 6, 0, 1, 2, 1, 1, 0],
        );
    }),
    // A communicator that is its own parent.
    damaged("S07", |trace| {
        patch_definitions(
            trace,
            &[0x16, 7, 0, 1, 0x0d, 1, 1, 0xff],
            &[0x16, 7, 0, 1, 0x0d, 1, 1, 0],
        );
    }),
    damaged("S08", |trace| {
        let file = trace.join("traces/4294967296.evt");
        let bytes = fs::read(&file).expect("read");
        fs::write(&file, &bytes[..bytes.len() - 2]).expect("cut");
    }),
    spoiled("S09", |fixture| fixture.promised = Some(99)),
    // Local definitions that cannot be read.
    damaged("S10", |trace| {
        fs::write(trace.join("traces/4294967296.def"), [7; 20]).expect("written");
    }),
    damaged("S11", |trace| {
        fs::copy(trace.join("traces/0.evt"), trace.join("traces/77.evt")).expect("copied");
    }),
    spoiled("S12", |fixture| {
        fixture.ranks[0].extend([
            Step::Enter(454, ALL_REDUCE, 1),
            Step::Enter(455, BROADCAST, 1),
            Step::Leave(455, ALL_REDUCE),
            Step::Leave(455, BROADCAST),
        ]);
    }),
    spoiled("S13", |fixture| {
        let region = RegionRef::new(77);
        fixture.ranks[0].extend([Step::Enter(454, region, 1), Step::Leave(455, region)]);
    }),
    spoiled("S14", |fixture| fixture.attribute_type = AttributeType::F64),
    spoiled("S15", |fixture| {
        let value = MetricValue::F64(1.0);
        set(
            fixture,
            0,
            |step| matches!(step, Step::Metric(..)),
            Step::Metric(452, value),
        );
    }),
    spoiled("S16", |fixture| {
        fixture.listed = vec![1, 0];
        fixture.members = vec![1, 0];
    }),
    spoiled("S17", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        fixture.two_gpus = true;
    }),
    spoiled("C01", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::Begin(300)));
    }),
    spoiled("C02", |fixture| {
        for rank in 0..2 {
            let wrong = Step::End(200, CollectiveOp::Gatherv, None, 8192, 8192);
            set(
                fixture,
                rank,
                |step| matches!(step, Step::End(200, ..)),
                wrong,
            );
        }
    }),
    spoiled("C03", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::IsendComplete(..)));
    }),
    spoiled("C04", |fixture| {
        set(
            fixture,
            0,
            |step| matches!(step, Step::Isend(..)),
            Step::Isend(400, 2, 1),
        );
    })
    .with(&["C08"]),
    spoiled("C05", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(1), 0, 64);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
    }),
    spoiled("C06", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(0), 0, 32);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
    }),
    spoiled("C07", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
    }),
    spoiled("C08", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::IrecvRequest(..) | Step::Irecv(..)));
    }),
    spoiled("C09", |fixture| {
        set(
            fixture,
            1,
            |step| matches!(step, Step::Irecv(..)),
            Step::IrecvBytes(455, 0, 7, 999),
        );
    }),
    spoiled("C10", |fixture| {
        fixture.ranks[0].retain(|step| !matches!(step, Step::PutComplete(..)));
    }),
    spoiled("C11", |fixture| {
        fixture.property("NCCL::COUNT::COLL::LOST", "2");
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
    })
    .with(&["A05"]),
    spoiled("C12", |fixture| {
        fixture.ranks[1].clear();
        fixture.property("NCCL::RANKS_MISSING", "1");
    }),
    spoiled("C13", |fixture| {
        fixture.property("NCCL::RANKS_MISSING", "1")
    }),
    spoiled("C14", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(1), 0, 64);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
        fixture.property("NCCL::MISMATCH::FUNCTION", "1");
        let said = "world: collective 2: rank 0 Broadcast of 64 bytes root 0; rank 1 Reduce of 64 bytes root 0";
        fixture.property("NCCL::MISMATCH::FUNCTION::LIST", said);
    })
    .with(&["C11"]),
    spoiled("C15", |fixture| {
        let wrong = Step::End(350, CollectiveOp::Bcast, Some(0), 0, 32);
        set(fixture, 1, |step| matches!(step, Step::End(350, ..)), wrong);
        fixture.property("NCCL::MISMATCH::COUNT", "1");
        let said = "world: collective 2: rank 0 Broadcast of 64 bytes root 0; rank 1 Broadcast of 32 bytes root 0";
        fixture.property("NCCL::MISMATCH::COUNT::LIST", said);
    })
    .with(&["C11"]),
    spoiled("C16", |fixture| {
        fixture.property("NCCL::MISMATCH::DATATYPE", "1");
        fixture.property("NCCL::MISMATCH::DATATYPE::LIST", "world: collective 1: …");
    }),
    spoiled("C17", |fixture| {
        fixture.property("NCCL::MISMATCH::ROOT", "1");
        fixture.property("NCCL::MISMATCH::ROOT::LIST", "world: collective 2: …");
    }),
    spoiled("C18", |fixture| {
        fixture.property("NCCL::MISMATCH::ORDER", "2");
        fixture.property("NCCL::MISMATCH::ORDER::LIST", "world: collective 1: …");
    })
    // Two are counted and one is listed.
    .with(&["A03"]),
    spoiled("C19", |fixture| {
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
        fixture.property("NCCL::RANKS_BEHIND", "1");
        let said = "world: rank 1 ended after 1 of 2 collectives";
        fixture.property("NCCL::RANKS_BEHIND::LIST", said);
    })
    .with(&["C11"]),
    spoiled("C20", |fixture| {
        fixture.property("NCCL::MATCHING_UNKNOWN", "1");
        let said = "another: rank 0: records were lost";
        fixture.property("NCCL::MATCHING_UNKNOWN::LIST", said);
    }),
    spoiled("T01", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 400), (300, -200), (500, -200)];
        fixture.span = (0, 10_000);
    })
    .with(&["T13"]),
    spoiled("T02", |fixture| fixture.span = (100, 454)),
    // The residual is 5 ns.
    spoiled("T03", |fixture| {
        fixture.channel = vec![Step::EnterChannel(105, 100), Step::Leave(206, CHANNEL)];
    }),
    spoiled("T04", |fixture| {
        fixture.channel = vec![Step::EnterChannel(105, 100), Step::Leave(200, CHANNEL)];
        let properties = &mut fixture.properties;
        properties.retain(|(name, _)| !name.starts_with("NCCL::GPU_CLOCK"));
    }),
    spoiled("T05", |fixture| {
        fixture.property("NCCL::CLOCK::CALIBRATION", "measured\nassumed");
    }),
    spoiled("T06", |fixture| {
        fixture.property("NCCL::GPU_CLOCK::INCONSISTENT::RANKS", "1");
    }),
    spoiled("T07", |fixture| {
        fixture.property("NCCL::COUNT::GPU_TIMES_SUSPICIOUS", "1");
    }),
    // By the clock of rank 1 the message is received at 385, and it is sent at 400.
    spoiled("T08", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, -45), (456, -45)];
        fixture.span = (50, 700);
        let is_received = |step: &Step| matches!(step, Step::Irecv(..));
        set(fixture, 1, is_received, Step::Irecv(430, 0, 7));
        let is_left = |step: &Step| matches!(step, Step::Leave(455, _));
        set(fixture, 1, is_left, Step::Leave(430, RECEIVE));
    }),
    // Rank 1 enters the all-reduce when rank 0 has left it.
    spoiled("T09", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 150), (456, 150)];
        fixture.span = (100, 700);
    }),
    // The same, admitted.
    spoiled("T10", |fixture| {
        *fixture = Fixture::aligned();
        fixture.offsets[1] = vec![(100, 150), (456, 150)];
        fixture.span = (100, 700);
        fixture.say(1, "NCCL::CLOCK::CORRECTION_NS", Said::Signed(200));
        fixture.property("NCCL::CLOCK::ALIGNMENT::VIOLATIONS", "1");
        for process in 0..2 {
            fixture.say(process, "NCCL::CLOCK::VIOLATIONS", Said::Unsigned(1));
        }
    }),
    spoiled("T11", |fixture| timed_by_kernel(fixture, 310, 351)),
    spoiled("T12", |fixture| {
        fixture.property("NCCL::GPU::NOT_PLACED", "2");
    }),
    // One alone does nothing.
    spoiled("T13", |fixture| {
        fixture.two_hosts = true;
        fixture.offsets[1] = vec![(100, 5)];
    }),
    spoiled("T14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.offsets[1] = vec![(100, 0), (454, 0)];
    }),
    // The kernel's channel is of the process of rank 0.
    spoiled("T15", |fixture| {
        *fixture = Fixture::aligned();
        fixture.offsets[2] = vec![(100, 1), (456, 1)];
    }),
    spoiled("T16", |fixture| {
        *fixture = Fixture::aligned();
        fixture.offsets[1] = vec![(100, 0), (1_000_000_100, 1_300_000)];
        fixture.say(1, "NCCL::CLOCK::DRIFT_PPB", Said::Signed(1_300_000));
    }),
    spoiled("T17", |fixture| {
        *fixture = Fixture::aligned();
        fixture.say(1, "NCCL::CLOCK::CORRECTION_NS", Said::Signed(49));
    }),
    spoiled("A01", |fixture| {
        fixture.property("NCCL::COUNT::COLL::SEEN", "5");
    }),
    spoiled("A02", |fixture| {
        fixture.property("NCCL::COUNT::COLL::SEEN", "5");
        fixture.property("NCCL::COUNT::COLL::WRITTEN", "5");
    }),
    spoiled("A03", |fixture| {
        fixture.property("NCCL::RANKS_CLAIMED_TWICE", "some");
    }),
    spoiled("A04", |fixture| {
        let wrong = Step::EnterUnfinished(300, BROADCAST);
        set(
            fixture,
            0,
            |step| matches!(step, Step::Enter(300, ..)),
            wrong,
        );
    }),
    spoiled("A05", |fixture| {
        fixture.property("NCCL::COUNT::COMMUNICATORS_LOST", "1");
    }),
    spoiled("A06", |fixture| {
        fixture.property("NCCL::COUNT::COLL::UNFINISHED", "1");
    }),
    spoiled("A07", |fixture| {
        fixture.property("NCCL::PROBLEMS", "1");
        fixture.property("NCCL::PROBLEM_LIST", "0.0 at byte 4096: torn");
    }),
    spoiled("A08", |fixture| {
        fixture.property("NCCL::PARTS_LEFT_OUT", "host.77: no journal");
    }),
    spoiled("A09", |fixture| {
        fixture.property("NCCL::RANKS_CLAIMED_TWICE", "1");
    }),
    // Far fewer are seen, and none is said to be lost.
    spoiled("A10", |fixture| {
        fixture.property("NCCL::COUNT::STARTED", "99");
    }),
    spoiled("A11", |fixture| {
        fixture.property("NCCL::COUNT::STOPS_LOST", "3");
        fixture.property("NCCL::COUNT::COLL::STOPS_LOST", "2");
    })
    .with(&["A05"]),
    // One that is not in the archive.
    spoiled("A12", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        fixture.property("NCCL::GPU::KERNELS_OTHER", "1");
    }),
    spoiled("A13", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        fixture.property("NCCL::GPU::LAUNCHES", "3");
        fixture.property("NCCL::GPU::CAPTURED", "1");
        fixture.property("NCCL::GPU::LAUNCHES_TIMED", "1");
    }),
    spoiled("A14", |fixture| {
        *fixture = Fixture::aligned();
        fixture.property("NCCL::CLOCK::ALIGNMENT::HOSTS", "3");
    }),
];

/// Rules that can be broken in another way as well.
const OTHER_CASES: &[Case] = &[
    spoiled("T12", |fixture| {
        let clock =
            "part: cupti: 4 samples, residual 0 ns, uncertainty 5 ns, pace +0 ppb, set 1 times";
        fixture.property("NCCL::GPU::CLOCKS::LIST", clock);
    }),
    // Its launch is another one.
    spoiled("A12", |fixture| {
        timed_by_kernel(fixture, 300, 350);
        let is_launch = |step: &Step| matches!(step, Step::EnterLaunch(..));
        set(fixture, 1, is_launch, Step::EnterLaunch(455, 78));
    }),
    spoiled("A13", |fixture| {
        fixture.property("NCCL::GPU::DROPPED_BY_CUPTI", "3");
    }),
    // There is one that rank 1 does not have.
    spoiled("C13", |fixture| {
        fixture.property("NCCL::COUNT::COLL::LOST", "2");
        fixture.ranks[1].retain(|step| !matches!(step, Step::Begin(300) | Step::End(350, ..)));
        fixture.property("NCCL::COLLECTIVES_UNMATCHED", "0");
    })
    .with(&["A05", "C11"]),
    spoiled("C13", |fixture| {
        fixture.property("NCCL::COLLECTIVES_UNMATCHED", "1");
    }),
    // The operation is on a thread of the process, its channel on the GPU.
    spoiled("T03", |fixture| {
        fixture.cpu_lanes = true;
        fixture.channel = vec![Step::EnterChannel(105, 100), Step::Leave(206, CHANNEL)];
    }),
];

/// The tool's own list.
fn rules(scratch: &Scratch) -> Vec<Value> {
    let output = scratch
        .tool()
        .args(["check", "--rules", "--json"])
        .output()
        .expect("ran");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_rule_has_an_archive_that_breaks_it() {
    let mut wrong = Vec::new();
    let listed = rules(&Scratch::new());
    let cases = CASES.iter().chain(OTHER_CASES);
    for case in cases.chain(clock_rules::OTHER_CASES) {
        let scratch = Scratch::new();
        let mut fixture = Fixture::sound();
        (case.spoil)(&mut fixture);
        let trace = fixture.write(scratch.path());
        (case.damage)(&trace);
        let output = scratch
            .tool()
            .args(["check", "--json"])
            .arg(&trace)
            .output()
            .expect("ran");
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", case.rule, text(&output.stderr)));
        let found: BTreeSet<&str> = report["rules"]
            .as_object()
            .expect("rules")
            .keys()
            .map(String::as_str)
            .collect();
        let expected: BTreeSet<&str> = case.also.iter().copied().chain([case.rule]).collect();
        let faulty = listed.iter().any(|rule| {
            rule["severity"] == "fault" && expected.iter().any(|number| rule["number"] == **number)
        });
        if found != expected || output.status.code() != Some(i32::from(faulty)) {
            wrong.push(format!(
                "{}: {expected:?} expected, exit code {:?}: {:#}",
                case.rule,
                output.status.code(),
                report["findings"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_rules_that_are_listed_are_those_that_are_tested() {
    let listed = rules(&Scratch::new());
    let listed: Vec<&str> = listed
        .iter()
        .filter_map(|rule| rule["number"].as_str())
        .collect();
    let tested: Vec<&str> = CASES.iter().map(|case| case.rule).collect();
    assert_eq!(listed, tested);
}

const PAGE: &str = "docs/REFERENCE.md";
const BEGIN: &str = "<!-- rules -->\n";
const END: &str = "<!-- end rules -->";

/// Set to write the table into the page instead of comparing.
const UPDATE: &str = "UPDATE_DOCS";

#[test]
fn the_page_lists_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PAGE);
    let page = fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the first marker");
    let (_, after) = rest.split_once(END).expect("the second marker");
    let mut table =
        String::from("| rule | severity | archives | what holds |\n|---|---|---|---|\n");
    for rule in rules(&Scratch::new()) {
        let [number, severity, scope, sentence] = ["number", "severity", "scope", "sentence"]
            .map(|name| rule[name].as_str().expect("a text"));
        writeln!(table, "| {number} | {severity} | {scope} | {sentence} |")
            .expect("a string takes everything");
    }
    let current = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &current).expect("the page can be written");
        return;
    }
    assert!(
        page == current,
        "{PAGE} differs from the rules: {UPDATE}=1 cargo test -p nccl-otf2 --test tool rules"
    );
}
