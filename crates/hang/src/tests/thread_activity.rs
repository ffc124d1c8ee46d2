//! What ranks are in, read from journals with NVTX ranges. Ranks are of one communicator, a process each.

use std::ffi::CStr;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::{judge_archive, judge_journals};
use analysis::Trace;
use archive::FinalizeOptions;
use journal::clock;
use journal::testing::{Process as Recording, ProcessIdentity, all_reduce, start};
use journal::writer::{PermanentName, PermanentText, SlotWriter};
use nccl_events::event::{ProxyOp, Start};
use nccl_events::ids::EventId;
use nccl_events::range::{Range, RangeCount, RangeField, RangeFields};
use nccl_events::{Body, Name};
use otf2::Archive;
use tempfile::TempDir;

const NAMES: [&CStr; 12] = [
    c"NCCL",
    c"ncclAllReduce",
    c"ncclCommInitRank",
    c"ncclCommSplit",
    c"ncclCommDestroy",
    c"ncclGroupStart",
    c"ncclGroupEnd",
    c"ncclCommFinalize",
    c"train_step #",
    c"build_groups",
    c"load_batch",
    c"prefetch",
];

static TEXTS: LazyLock<Vec<PermanentText>> =
    LazyLock::new(|| (0..).zip(NAMES).map(|(number, text)| PermanentText { number, text: text.to_owned() }).collect());

fn name(text: &CStr) -> Option<PermanentName> {
    TEXTS.iter().find(|known| *known.text == *text).map(PermanentName)
}

fn fields(fields: &[(RangeField, u64)]) -> RangeFields {
    let mut all = RangeFields::default();
    fields.iter().for_each(|(field, value)| all.add(*field, *value));
    all
}

fn push(thread: &mut SlotWriter, level: u16, of: &'static CStr, numbers: &[(RangeField, u64)]) {
    let domain = if of.to_bytes().starts_with(b"nccl") { name(c"NCCL") } else { None };
    let range = Range { domain, name: name(of), category: None, fields: fields(numbers) };
    assert!(thread.push_range(clock::ticks(), level, false, &range));
}

fn pop(thread: &mut SlotWriter, level: u16) {
    assert!(thread.pop_range(clock::ticks(), level, &RangeFields::default()));
}

/// A call of NCCL that returns.
fn call(thread: &mut SlotWriter, level: u16, of: &'static CStr) {
    push(thread, level, of, &[]);
    pop(thread, level);
}

/// The report on four ranks that initialised NCCL, each of which then did what `each` says.
fn report_on(each: impl Fn(u32, &mut Recording)) -> Report {
    let out = TempDir::new().expect("a directory");
    let processes: Vec<Recording> = (0..4).map(|rank| record(out.path(), rank, &each)).collect();
    let report = judge_journals(out.path(), 0, &()).expect("a report");
    drop(processes);
    report
}

fn record(out: &Path, rank: u32, each: &impl Fn(u32, &mut Recording)) -> Recording {
    let mut process = Recording::begin(out, ProcessIdentity { rank, ranks: 4, in_environment: true });
    call(&mut process.main, 0, c"ncclCommInitRank");
    process.collective(0);
    each(rank, &mut process);
    process.maintenance.clock_pair(&clock::ClockPair::read());
    process
}

fn step(process: &mut Recording, of: &'static CStr) {
    push(&mut process.main, 0, c"train_step #", &[(RangeField::Number, 17)]);
    push(&mut process.main, 1, of, &[]);
}

#[test]
fn a_rank_outside_of_a_split_is_the_suspect_and_says_what_its_program_does() {
    let report = report_on(|rank, process| match rank {
        3 => step(process, c"load_batch"),
        _ => {
            step(process, c"build_groups");
            push(&mut process.main, 2, c"ncclCommSplit", &[]);
        }
    });
    assert_eq!(suspect(&report), ("not-called", "world (4)", 3, 3));
    let text = &report.verdict.line;
    let line = "HANG: rank 3 has not called ncclCommSplit: it is in `… > load_batch`; ranks 0-2 wait for up to ";
    assert!(text.starts_with(line), "{text}");
    let rows: Vec<(Option<u32>, Option<&str>, Vec<&str>)> = report
        .ranks
        .iter()
        .map(|row| {
            let ranges = row.ranges.iter().map(|range| &*range.name).collect();
            (row.job_rank, row.call.as_ref().map(|call| &*call.name), ranges)
        })
        .collect();
    assert_eq!(rows[0], (Some(0), Some("ncclCommSplit"), vec!["train_step 17", "build_groups"]));
    assert_eq!(rows[3], (Some(3), None, vec!["train_step 17", "load_batch"]));
}

/// Of 2.23 NCCL states rank and number of ranks of the parent; all calls are around a group's end.
#[test]
fn a_rank_in_another_call_is_named_with_it() {
    let report = report_on(|rank, process| match rank {
        3 => push(&mut process.main, 0, c"ncclCommDestroy", &[(RangeField::CommId, 0x77)]),
        _ => {
            let numbers = [(RangeField::Rank, rank.into()), (RangeField::Ranks, 4), (RangeField::SplitColor, 1)];
            call(&mut process.main, 0, c"ncclGroupStart");
            push(&mut process.main, 0, c"ncclCommSplit", &numbers);
            pop(&mut process.main, 0);
            push(&mut process.main, 0, c"ncclGroupEnd", &[]);
        }
    });
    assert_eq!(suspect(&report), ("in-the-call", "world (4)", 3, 3));
    let line = "HANG: rank 3 is in ncclCommDestroy, which does not return; ranks 0-2 wait for up to ";
    assert_says(&report.verdict.line, &[line]);
    let call = report.ranks[0].call.as_ref().expect("a call");
    assert_eq!((&*call.name, call.rank, call.ranks, call.color), ("ncclCommSplit", Some(0), Some(4), Some(1)));
}

#[test]
fn a_communicator_that_not_all_destroy_names_who_does_not() {
    let report = report_on(|rank, process| match rank {
        0 => push(&mut process.main, 0, c"ncclCommFinalize", &[]),
        1 => push(&mut process.main, 0, c"ncclCommDestroy", &[]),
        // It has returned from the call that the others are in.
        2 => call(&mut process.main, 0, c"ncclCommFinalize"),
        _ => step(process, c"load_batch"),
    });
    assert_eq!((suspect(&report).0, report.suspects.len()), ("not-called", 1));
    assert_says(
        &report.verdict.line,
        &["HANG: rank 3 has not called ncclComm", ": it is in `… > load_batch`; ranks 0-1 wait"],
    );
}

#[test]
fn who_waits_in_a_collective_and_for_whom_says_it_by_ranges() {
    let open = |process: &mut Recording| {
        let operation = start(process.context, EventId::NONE.get(), process.rank, all_reduce(1, 0));
        let operation = process.main.start(&operation);
        let transfer = ProxyOp { channel: 0, peer: 1, steps: 4, is_send: true, ..ProxyOp::default() };
        let body: Body<Name<'_>> = Body::ProxyOp(transfer);
        let transfer: Start<Name<'_>> = start(process.context, operation.get(), process.rank, body);
        process.proxy.start(&transfer);
        process.main.stop(operation.get());
    };
    let report = report_on(|rank, process| {
        step(process, if rank == 3 { c"load_batch" } else { c"build_groups" });
        if rank < 3 {
            open(process);
        }
    });
    assert_eq!(suspect(&report), ("not-called", "world (4)", 3, 3));
    assert_says(&report.verdict.line, &["rank 3 has not called ncclAllReduce #2 of world (4); ranks 0-2 wait"]);
    assert_says(&report.verdict.evidence.join("\n"), &["rank 3 is in `train_step 17 > load_batch`"]);
}

/// Three ranks split a communicator, each on a thread that called NCCL; `last_call` is what the last rank does.
fn split_on_threads(last_call: fn(&mut Recording)) -> Report {
    report_on(|rank, process| {
        push(&mut process.main, 0, c"train_step #", &[(RangeField::Number, 17)]);
        if rank == 3 {
            return last_call(process);
        }
        let mut other = process.thread("groups");
        push(&mut other, 0, c"build_groups", &[]);
        push(&mut other, 1, c"ncclCommSplit", &[]);
    })
}

#[test]
fn call_counts_on_any_thread_that_called_nccl() {
    // Which thread has the range does not matter, unless it never called NCCL.
    let idle = split_on_threads(|process| push(&mut process.thread("loader"), 0, c"prefetch", &[]));
    assert_eq!(suspect(&idle).0, "not-called");
    assert_says(&idle.verdict.line, &["it is in `train_step 17`; ranks 0-2 wait"]);
}

#[test]
fn lost_ranges_accuse_no_rank() {
    let lost = split_on_threads(|process| {
        let mut counts = [0; RangeCount::COUNT];
        counts[RangeCount::Lost as usize] = 1;
        assert!(process.main.range_counts(clock::ticks(), counts));
    });
    assert_eq!(suspect(&lost), ("unrecorded", "world (4)", 3, 3));
    assert_says(&lost.verdict.line, &["whether rank 3 called ncclCommSplit is not recorded"]);
    assert_says(&lost.unknown.join("\n"), &["1 NVTX range was not recorded"]);
}

/// A program that keeps running without calling NCCL is no activity of NCCL.
#[test]
fn ranges_of_the_program_are_no_activity_of_nccl() {
    let out = TempDir::new().expect("a directory");
    let each = |rank: u32, process: &mut Recording| {
        if rank < 3 {
            process.collective(1);
        }
        std::thread::sleep(Duration::from_millis(100));
        call(&mut process.main, 0, c"load_batch");
    };
    for rank in 0..4 {
        record(out.path(), rank, &each).leave();
    }
    archive::finalize(out.path(), &FinalizeOptions::default(), &()).expect("an archive");
    let anchor = out.path().join(archive::ANCHOR);
    let trace = Trace::read(anchor.clone(), Archive::open(&anchor).expect("opened")).expect("read");
    let report = judge_archive(&trace, out.path(), 0, &()).expect("a report");
    assert_eq!(suspect(&report), ("not-called", "world (4)", 3, 3));
    let said = report.verdict.evidence.iter().find_map(|line| line.strip_prefix("the last NCCL activity of its "));
    let earlier = said.and_then(|said| said.strip_prefix("process had been ")?.strip_suffix(" s earlier"));
    let earlier = earlier.and_then(|seconds| seconds.parse::<f64>().ok());
    assert!(earlier.is_some_and(|seconds| seconds >= 0.1), "{:?}", report.verdict.evidence);
}
