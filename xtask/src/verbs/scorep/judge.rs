//! Checks a run's output against what its cell should show.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::cells::{Cell, Special};
use super::job::{Bench, Run};
use super::waiting::{self, Waiting};
use crate::process;

const OPERATIONS: &str = "NCCL operations";

#[derive(Debug, Default, PartialEq)]
pub(super) struct Numbers {
    /// According to the archive: calls shown to Score-P, and all calls.
    pub(super) calls: (u64, u64),
    pub(super) operations: (u64, u64),
    /// The reasons for operations and calls not shown, such as `OVERLAPPING 1`.
    pub(super) not_shown: String,
    pub(super) in_trace: (u64, u64),
    pub(super) in_profile: (u64, u64),
    /// How often Score-P wrote out a full buffer.
    pub(super) flushes: u64,
    pub(super) waiting: Vec<Waiting>,
}

/// Counts the output of a run; an error describes its fault.
pub(super) fn judge(bench: &Bench, run: &Run) -> Result<Numbers> {
    for word in ["Fatal", "Abort", "Assertion", "Bug:", "Inconsistent"] {
        let complaint = run.output.lines().find(|line| line.contains(word));
        ensure!(complaint.is_none(), "it said: {}", complaint.unwrap_or_default());
    }
    let archive = run.archive();
    process::output(Command::new(&bench.tools.nccl_otf2).arg("check").arg(&archive), "check of NCCL's archive")?;
    let mut numbers = archive_numbers(&archive)?;
    for experiment in run.experiments()? {
        if run.cell.writes_trace {
            add_trace(bench, &experiment, &mut numbers)?;
        }
        if run.cell.writes_profile {
            add_profile(&experiment.join("profile.cubex"), &mut numbers)?;
        }
        expect_special(run.cell, &experiment)?;
    }
    expect(run.cell, &numbers)?;
    if run.cell.special == Special::Together {
        numbers.waiting = waiting::judge(bench, run)?;
    }
    Ok(numbers)
}

fn archive_numbers(archive: &Path) -> Result<Numbers> {
    let output =
        process::output(Command::new("otf2-print").arg("-I").arg(archive.join("traces.otf2")), "otf2-print -I")?;
    let mut values: BTreeMap<&str, u64> = BTreeMap::new();
    let mut name = None;
    for line in output.lines() {
        if let Some(property) = line.strip_prefix("Property name") {
            name = property.trim().strip_prefix("NCCL::");
        } else if let (Some(value), Some(name)) = (line.strip_prefix("Property value"), name) {
            values.extend(value.trim().parse().ok().map(|number: u64| (name, number)));
        }
    }
    let value = |name: &str| values.get(name).copied().unwrap_or(0);
    let shown = |name: &str| value(&format!("SCOREP::{name}"));
    let not = |names: &[&str]| names.iter().map(|name| shown(name)).sum::<u64>();
    let calls_not = ["CALLS_UNKNOWN_THREAD", "CALLS_OUTSIDE", "CALLS_NOT_RECORDED", "CALLS_FILTERED"];
    let operations_not = [
        "OPERATIONS_DROPPED",
        "OPERATIONS_OVERLAPPING",
        "OPERATIONS_NOT_PLACED",
        "OPERATIONS_FILTERED",
        "OPERATIONS_CALLS_ONLY",
    ];
    // Operations still waiting when the archive is written are shown at the end of the measurement.
    let operations = shown("OPERATIONS") + shown("OPERATIONS_WAITING");
    let reasons = calls_not.iter().chain(&operations_not).filter(|name| shown(name) > 0);
    let reasons: Vec<String> = reasons.map(|name| format!("`{name}` {}", shown(name))).collect();
    Ok(Numbers {
        calls: (shown("CALLS"), shown("CALLS") + not(&calls_not)),
        operations: (operations, operations + not(&operations_not)),
        not_shown: reasons.join(", "),
        ..Numbers::default()
    })
}

fn add_trace(bench: &Bench, experiment: &Path, numbers: &mut Numbers) -> Result<()> {
    let anchor = experiment.join("traces.otf2");
    process::output(Command::new("otf2-print").args(["--silent", "-Werror"]).arg(&anchor), "otf2-print")?;
    for event in bench.tools.events(&anchor)? {
        let (location, region) = (event["location"].as_str().unwrap_or(""), event["region"].as_str().unwrap_or(""));
        numbers.flushes += u64::from(event["event"] == "BufferFlush");
        if event["event"] != "Enter" {
            continue;
        }
        if region.starts_with("nccl") && location.starts_with(OPERATIONS) {
            numbers.in_trace.1 += 1;
        } else if region.starts_with("nccl") {
            numbers.in_trace.0 += 1;
        }
    }
    Ok(())
}

fn add_profile(profile: &Path, numbers: &mut Numbers) -> Result<()> {
    let mut command = Command::new("cube_dump");
    command.args(["-m", "visits", "-c", "all", "-x", "excl", "-z", "excl"]).arg(profile);
    let (calls, operations) = visits(&process::output(&mut command, "cube_dump")?);
    numbers.in_profile.0 += calls;
    numbers.in_profile.1 += operations;
    Ok(())
}

/// The visits on threads and on the locations of operations, from a table of `cube_dump` with a row per call path and a
/// column per location.
fn visits(table: &str) -> (u64, u64) {
    let mut is_operations: Vec<bool> = Vec::new();
    let (mut calls, mut operations) = (0, 0);
    for line in table.lines() {
        if is_operations.is_empty() && line.contains(" thread") && !line.contains("(id=") {
            let names = line.split("  ").map(str::trim).filter(|name| !name.is_empty());
            is_operations = names.map(|name| name.starts_with(OPERATIONS)).collect();
            continue;
        }
        let Some((_, values)) = line.split_once("(id=").filter(|_| line.starts_with("nccl")) else {
            continue;
        };
        for (value, is_operation) in values.split_whitespace().skip(1).zip(&is_operations) {
            let visits: u64 = value.parse().unwrap_or(0);
            *if *is_operation { &mut operations } else { &mut calls } += visits;
        }
    }
    (calls, operations)
}

fn expect_special(cell: Cell, experiment: &Path) -> Result<()> {
    match cell.special {
        Special::Scan => {
            let has_report = ["scout.cubex", "trace.cubex"].iter().any(|name| experiment.join(name).is_file());
            ensure!(has_report, "scout made no report of {}", experiment.display());
        }
        Special::Substrate => {
            let manifest = std::fs::read_to_string(experiment.join("MANIFEST.md")).context("read MANIFEST.md")?;
            ensure!(manifest.contains("nccl-otf2/"), "MANIFEST.md does not name the archive");
        }
        _ => {}
    }
    Ok(())
}

fn expect(cell: Cell, numbers: &Numbers) -> Result<()> {
    let (calls, all_calls) = numbers.calls;
    let (operations, all_operations) = numbers.operations;
    if !cell.shows() {
        ensure!((all_calls, all_operations) == (0, 0), "something is said to be shown: {numbers:?}");
        return Ok(());
    }
    let rounds = u64::from(cell.rounds());
    // In both processes, one all-reduce per round, and a send and a receive in every tenth.
    ensure!(all_operations == 2 * (rounds + rounds / 5), "there are {all_operations} operations");
    if cell.shows_calls_only() {
        ensure!(operations == 0, "{operations} operations are shown");
    } else {
        // On a busy machine, a send may be reported after the receive beside it, which ended later, is already shown.
        let late = if cell.special == Special::Flushes { all_operations / 1000 } else { 0 };
        ensure!(operations + late >= all_operations, "{operations} of {all_operations} operations are shown");
    }
    if cell.knows_the_caller() && cell.special != Special::Filter {
        // Up to 2.27, a communicator ends on one of NCCL's own threads.
        ensure!(calls + 2 >= all_calls && calls > 0, "{calls} of {all_calls} calls are shown");
    }
    if cell.special == Special::Flushes {
        ensure!(numbers.flushes > 0, "Score-P wrote out no full buffer");
    }
    let shown = (calls, operations);
    if cell.writes_trace {
        ensure!(numbers.in_trace == shown, "the trace has {:?}, not {shown:?}", numbers.in_trace);
    }
    if cell.writes_profile {
        ensure!(numbers.in_profile == shown, "the profile has {:?}, not {shown:?}", numbers.in_profile);
    }
    Ok(())
}

/// The archive's contents without times and values that differ between runs: the number of occurrences of each event.
pub(super) fn contents(bench: &Bench, archive: &Path) -> Result<BTreeMap<String, u64>> {
    let mut contents = BTreeMap::new();
    for event in bench.tools.events(archive)? {
        let attributes = &event["attributes"];
        let location = nameless(event["location"].as_str().unwrap_or(""));
        let kept = ["nccl.bytes", "nccl.seq", "nccl.peer", "nccl.algo"].map(|name| attributes[name].to_string());
        let entry = format!("{location} {} {} {}", event["event"], event["region"], kept.join(" "));
        *contents.entry(entry).or_default() += 1;
    }
    Ok(contents)
}

/// A location's name without numbers of threads and communicators, and without the number of a second location.
fn nameless(location: &str) -> String {
    let words = location.split(' ').filter(|word| {
        let is_number = word.len() > 1 && word.chars().all(|c| c.is_ascii_digit());
        !(is_number || word.starts_with("0x") || word.starts_with('#'))
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_counted_by_location() {
        let table = "
                        Master thread             NCCL operations, until reported   Master thread
-------------------------------------------------------------------------------
main(id=1)              1                        0                          1
ncclAllReduce(id=12)    20                       0                          21
ncclAllReduce(id=22)    0                        7                          0
";
        assert_eq!(visits(table), (41, 7));
    }
}
