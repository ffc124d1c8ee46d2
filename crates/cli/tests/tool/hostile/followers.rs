//! Journals and launchers with impossible values.

use std::fs;

use journal::format::{SEGMENT_BYTES, header};
use journal::testing::{NO_PROCESS, Process, ProcessIdentity};

use super::{bounded, patch};
use crate::tool::recording::{record, record_in};
use crate::tool::support::Scratch;

#[test]
fn a_journal_without_a_process_tag_keeps_nobody_waiting() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    let damaged = record(&out, 0, NO_PROCESS, 3);
    record(&out, 1, NO_PROCESS, 2);
    for file in fs::read_dir(damaged.join("journal")).expect("a journal").flatten() {
        patch(&file.path(), |bytes| {
            for segment in bytes.chunks_mut(SEGMENT_BYTES) {
                segment[8 * header::PROCESS..8 * header::PROCESS + 2].fill(0);
            }
        });
    }
    let ended = bounded(&scratch, &["metrics", "trace", "--once"]).with_code(0);
    let operations = ended.stdout.lines().find(|line| line.starts_with("nccl_operation_duration_seconds_count{"));
    assert!(operations.is_some_and(|line| line.ends_with(" 2")), "{}", ended.stdout);
    bounded(&scratch, &["top", "trace", "--once"]).with_code(0);
    for verb in ["hang", "print"] {
        let path = if verb == "print" { "trace/parts" } else { "trace" };
        let ended = bounded(&scratch, &[verb, path]);
        assert!(format!("{ended:?}").contains("no valid segment header here"), "{ended:?}");
    }
}

#[test]
fn journals_that_cannot_be_read_are_named_and_counted() {
    let other_format: fn(&mut Vec<u8>) = |bytes| bytes[8 * header::VERSION] = 9;
    for (damage, said) in [(other_format, "journal format 9"), (Vec::clear, "missing, empty or zeroed")] {
        let scratch = Scratch::new();
        let parts = [0, 1].map(|rank| record(&scratch.join("trace"), rank, NO_PROCESS, 3));
        for file in parts.iter().flat_map(|part| fs::read_dir(part.join("journal")).expect("a journal").flatten()) {
            patch(&file.path(), damage);
        }
        for line in ["metrics trace --once", "top trace --once", "hang trace", "print trace"] {
            let ended = bounded(&scratch, &line.split(' ').collect::<Vec<_>>());
            let text = ended.stdout.clone() + &ended.stderr;
            let is_said = |part: &str| text.lines().any(|line| line.contains(part) && line.contains(said));
            assert!(ended.code != Some(0) && is_said("host-0/") && is_said("host-1/"), "{line} {said}: {ended:?}");
            let is_counted = |line: &str| line.starts_with("nccl_parts_unreadable{") && line.ends_with(" 2.0");
            assert!(!line.starts_with("metrics") || ended.stdout.lines().any(is_counted), "{ended:?}");
        }
    }
}

#[test]
fn a_number_of_ranks_that_cannot_be_costs_nothing() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record_in(&out, 0, NO_PROCESS, 3, |info| {
        info.environment.rank = Some(0);
        info.environment.size = Some(4_000_000_000);
    });
    let ended = bounded(&scratch, &["hang", "trace", "--all"]);
    assert!(ended.stdout.starts_with("CANNOT TELL: ") && ended.stderr.is_empty(), "{ended:?}");
    let said = "The launcher states 4000000000 processes, which is impossible";
    assert!(ended.stdout.contains(said), "{ended:?}");
    let ended = bounded(&scratch, &["watch", "trace", "--once"]).with_code(2);
    assert!(ended.stderr.contains("CANNOT TELL: "), "{ended:?}");

    // The same value from a journal.
    let who = ProcessIdentity { rank: 0, ranks: 2_000_000_000, in_environment: false };
    let mut process = Process::begin(&scratch.join("other"), who);
    process.collective(0);
    let _part = process.leave();
    let ended = bounded(&scratch, &["hang", "other", "--all"]);
    assert!(ended.code.is_some_and(|code| code < 2), "{ended:?}");
    assert!(ended.stdout.contains("of 2000000000 of a communicator, which is impossible"), "{ended:?}");
}
