//! The callbacks of processes as JSON Lines, as they are printed and can be replayed.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::run;
use whole_plugin::{built, scratch::Scratch};

fn replayed(streams: &[PathBuf]) -> Scratch {
    let scratch = Scratch::new();
    let _replayed = run(scratch.replay(streams).env("NCCL_OTF2_KEEP_JOURNAL", "1")).with_code(0);
    scratch
}

/// The files of an export, in the order of their names.
fn exported(scratch: &Scratch, options: &[&str]) -> (Vec<PathBuf>, Value) {
    let out = format!("streams{}", options.concat());
    let mut tool = scratch.tool(&["export", "--format", "jsonl", "out", "--json", "-o", &out]);
    let said: Value = serde_json::from_str(&run(tool.args(options)).with_code(0).stdout).expect("JSON");
    let files = said["files"].as_array().expect("files").iter();
    (files.map(|file| scratch.path().join(file.as_str().expect("a name"))).collect(), said)
}

#[test]
fn a_file_has_what_is_printed_of_its_process() {
    let scratch = replayed(&two_process_streams());
    let (files, said) = exported(&scratch, &[]);
    assert_eq!(files.len(), 2);
    let mut lines = 0;
    for file in &files {
        let part = scratch.out().join("parts").join(file.file_stem().expect("a name"));
        let printed = run(scratch.tool(&["print", "--json"]).arg(part)).with_code(0).stdout;
        assert_eq!(fs::read_to_string(file).expect("a stream"), printed);
        lines += printed.lines().count();
    }
    assert_eq!(said["events"], lines);
    let mut replay = scratch.plain(built::plugin_host());
    replay.arg("replay").args(&files).arg("--plugin").arg(built::plugin());
    let _again = run(replay.env("NCCL_OTF2_DIR", scratch.path().join("again"))).with_code(0);
    let (rank_files, _) = exported(&scratch, &["--rank=1"]);
    let events = rank_files.iter().map(|file| fs::read_to_string(file).expect("a stream").lines().count());
    let mut events: Vec<usize> = events.collect();
    events.sort_unstable();
    assert_eq!(events[0], 0, "{events:?}");
    assert!(events[1] > 100, "{events:?}");
}

#[test]
fn without_journals_it_says_how_to_keep_them() {
    let scratch = Scratch::new();
    let _replayed = run(&mut scratch.replay(&two_process_streams())).with_code(0);
    let refused = run(&mut scratch.tool(&["export", "--format", "jsonl", "out", "-o", "streams"])).with_code(2);
    assert!(refused.stderr.contains("NCCL_OTF2_KEEP_JOURNAL=1"), "{}", refused.stderr);
    assert!(!scratch.path().join("streams").exists());
}
