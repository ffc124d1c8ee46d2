//! `nccl-otf2 hang` on journals written by the recorder's own writer.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};

use journal::format::HEADER_WORDS;
use journal::part::ProcessInfo;

use super::recording::{NO_PROCESS, record, record_in};
use super::support::Scratch;

#[track_caller]
fn report(scratch: &Scratch, arguments: &[&str], code: i32) -> serde_json::Value {
    scratch.ends([&["hang", "trace", "--json"], arguments].concat()).with_code(code).json()
}

/// Rank 0 is one collective ahead of rank 1; both are dead.
fn behind(scratch: &Scratch) {
    let out = scratch.join("trace");
    record(&out, 0, NO_PROCESS, 3);
    record(&out, 1, NO_PROCESS, 2);
}

#[test]
fn the_text_begins_with_the_verdict_and_says_where_ranks_are() {
    let scratch = Scratch::new();
    behind(&scratch);
    let page = scratch.ends(["hang", "trace", "--after", "0"]).with_code(1).stdout;
    let expected = "HANG: rank 1 had not called ncclAllReduce #3 of world (2); rank 0 waited for ";
    assert!(page.starts_with(expected), "{page}");
    // Only the enqueueing is recorded: all ranks called the second collective, and the report claims no more.
    for line in ["\n  last complete     collective 2", "whether it ended is not recorded", "\n  not entered       1\n"]
    {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[test]
fn exit_codes_are_for_scripts() {
    let scratch = Scratch::new();
    behind(&scratch);
    fs::create_dir_all(scratch.join("empty/parts")).expect("made");
    for (arguments, expected, words) in [
        (&["trace", "--after", "0"][..], 1, ""),
        // It died within moments of its last record, so nobody had waited for ten seconds.
        (&["trace"], 0, ""),
        (&["trace", "--after", "-1"], 2, "-1"),
        (&["trace", "--after", "soon"], 2, "a number of seconds"),
        (&["nowhere"], 2, "nowhere: no such file"),
        (&["."], 2, "it has no parts/"),
        (&["empty"], 2, "NCCL_OTF2_DIR"),
    ] {
        let ended = scratch.ends([&["hang"], arguments].concat()).with_code(expected);
        assert!(ended.stderr.contains(words), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn no_more_is_claimed_of_a_written_part_than_is_known() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    // The test's own process stands for rank 0, which runs.
    record(&out, 0, std::process::id(), 3);
    record(&out, 1, NO_PROCESS, 2);
    let before = report(&scratch, &["--after", "1000"], 1);
    assert_eq!(before["suspects"][0]["reason"], "gone", "{before:#}");
    assert_eq!(before["processes"][0]["process_state"], "running");
    // Rank 1's part is written, and its journal removed.
    scratch.tool().args(["finalize", "trace"]).assert().code(1);
    assert!(!out.join("parts/host-1/journal").exists());
    let after = report(&scratch, &["--after", "0"], 0);
    assert_eq!(after["suspects"], serde_json::json!([]), "{after:#}");
    assert_eq!(after["communicators"][0]["sequences"][0]["ranks"][1]["entered"], 2);
    assert_eq!(after["processes"][1]["process_state"], "ended");
    assert_eq!(after["processes"][1]["has_journal"], false);
}

#[test]
fn on_other_hosts_only_the_records_count() {
    let scratch = Scratch::new();
    for (rank, collectives) in [(0, 3), (1, 2)] {
        let elsewhere = |info: &mut ProcessInfo| info.boot_id = "another host".to_owned();
        record_in(&scratch.join("trace"), rank, NO_PROCESS, collectives, elsewhere);
    }
    let report = report(&scratch, &["--after", "0"], 1);
    assert_eq!(report["processes"][0]["process_state"], "running", "{report:#}");
    assert_eq!(report["suspects"][0]["reason"], "not-called");
}

#[test]
fn damage_is_named_and_the_rest_is_read() {
    let scratch = Scratch::new();
    behind(&scratch);
    let journal = scratch.join("trace/parts/host-0/journal");
    let segment = journal.join("1.0");
    assert!(segment.is_file(), "the main thread's journal");
    // After the header and the first records.
    let mut file = OpenOptions::new().write(true).open(segment).expect("opened");
    let behind_header = 8 * HEADER_WORDS as u64 + 400;
    file.seek(SeekFrom::Start(behind_header)).expect("there");
    file.write_all(&[0xff; 16]).expect("written");
    fs::write(scratch.join("trace/parts/host-1/process.json"), "{").expect("written");
    // The last records of rank 0 are lost, and the position of rank 1 is unknown.
    let report = report(&scratch, &["--after", "1000"], 2);
    assert_eq!(report["verdict"]["kind"], "unknown", "{report:#}");
    let unknown = report["unknown"].to_string();
    assert!(unknown.contains("no record here: word"), "{unknown}");
    assert!(unknown.contains("process.json"), "{unknown}");
    assert_eq!(report["communicators"][0]["ranks"], 2);
}

#[test]
fn a_watch_ends_when_nobody_runs() {
    let scratch = Scratch::new();
    behind(&scratch);
    let mut command = scratch.tool();
    command.args(["hang", "trace", "--watch", "0.1"]);
    command.timeout(std::time::Duration::from_secs(120));
    command.assert().code(0);
}

/// One field is wrong; the others identify the process.
#[test]
fn the_good_fields_of_a_damaged_description_count() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record(&out, 0, std::process::id(), 3);
    record(&out, 1, NO_PROCESS, 2);
    let path = out.join("parts/host-1/process.json");
    let mut process: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    process["environment"]["size"] = (-1).into();
    fs::write(&path, process.to_string()).expect("written");
    let report = report(&scratch, &["--after", "1000"], 1);
    assert_eq!(report["processes"][1]["process_state"], "gone", "{report:#}");
    assert_eq!(report["suspects"][0]["process"], "host:1073741824", "{report:#}");
    assert!(report["unknown"].to_string().contains("left out environment.size: invalid value"), "{report:#}");
}

#[test]
fn a_journal_that_is_gone_or_empty_or_elsewhere_is_named() {
    let scratch = Scratch::new();
    behind(&scratch);
    let journal = scratch.join("trace/parts/host-1/journal");
    let expect = |problem: &str| {
        let report = report(&scratch, &["--after", "0"], 2);
        assert_eq!(report["verdict"]["kind"], "unknown", "{report:#}");
        assert!(report["unknown"].to_string().contains(problem), "{problem}: {report:#}");
        report
    };
    fs::write(journal.join("1.0"), "").expect("written");
    expect("these files are empty: 1.0 in ");
    fs::remove_dir_all(&journal).expect("removed");
    expect("its journal is missing: ");
    std::os::unix::fs::symlink("/nowhere/on/this/host", &journal).expect("linked");
    expect("NCCL_OTF2_JOURNAL_DIR");
    // Only the enqueueing of rank 0 is known, so the report does not claim that it waits for rank 1.
    let report = expect("nothing is recorded here about rank 1");
    assert_eq!(report["communicators"][0]["ranks_missing"], serde_json::json!([1]));
}
