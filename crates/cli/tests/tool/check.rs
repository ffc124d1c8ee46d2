//! `nccl-otf2 check` of sound archives, and of archives that state what they lack; `rules` has the faults.

use std::path::Path;

use serde_json::Value;

use super::fixture::Fixture;
use super::support::{Scratch, ToolOutput};

/// Checks an archive; returns the exit code, the broken rules and the report.
fn check(scratch: &Scratch, options: &[&str], trace: &Path) -> (Option<i32>, Vec<String>, Value) {
    let ended = ToolOutput::run(scratch.tool().args(["check", "--json"]).args(options).arg(trace));
    let report = ended.json();
    let rules = report["rules"].as_object().expect("rules").keys().cloned().collect();
    (ended.code, rules, report)
}

#[test]
fn a_sound_archive_is_one_line() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    for path in [trace.clone(), trace.join("traces.otf2")] {
        let ended = ToolOutput::run(scratch.tool().arg("check").arg(path)).with_code(0);
        assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
        ended.assert_prints("no faults (1 process, 3 locations, 29 events)");
    }
}

#[test]
fn what_the_archive_admits_is_a_remark_and_fails_only_when_strict() {
    let scratch = Scratch::new();
    let mut fixture = Fixture::sound();
    fixture.property("NCCL::COUNT::COLL::UNFINISHED", "1");
    fixture.property("NCCL::COUNT::COLL::LOST", "2");
    fixture.property("NCCL::PROBLEMS", "1");
    fixture.property("NCCL::PROBLEM_LIST", "0.0 at byte 4096: torn");
    fixture.ranks[1].truncate(4);
    fixture.property("NCCL::RANKS_MISSING", "0");
    let trace = fixture.write(scratch.path());
    let (code, found, report) = check(&scratch, &[], &trace);
    assert_eq!(found, ["A05", "A06", "A07", "C11"], "{report:#}");
    assert_eq!(code, Some(0));
    assert_eq!(report["faults"], 0);
    let (code, ..) = check(&scratch, &["--strict"], &trace);
    assert_eq!(code, Some(1));
}

/// A flight recording counts all launches, but keeps only the times of the last ones.
#[test]
fn launches_that_were_not_kept_are_not_missing() {
    let scratch = Scratch::new();
    let mut fixture = Fixture::sound();
    fixture.property("NCCL::GPU::BACKEND", "events");
    fixture.property("NCCL::GPU::LAUNCHES", "1000");
    fixture.property("NCCL::GPU::LAUNCHES_TIMED", "40");
    let (_, found, _) = check(&scratch, &[], &fixture.write(&scratch.join("trace")));
    assert_eq!(found, ["A13"]);
    fixture.property("NCCL::FLIGHT::PROCESSES", "1");
    let (_, found, _) = check(&scratch, &[], &fixture.write(&scratch.join("flight")));
    assert_eq!(found, Vec::<String>::new());
    fixture.property("NCCL::GPU::REFUSED", "3");
    let (_, found, report) = check(&scratch, &[], &fixture.write(&scratch.join("refused")));
    assert_eq!(found, ["A13"]);
    assert!(report.to_string().contains("of 3 of 1 000 launches"), "{report:#}");
}
