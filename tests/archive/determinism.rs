//! The same journals always give the same archive, byte for byte, whoever writes it and when.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use whole_plugin::built;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// Two processes that record at the same time; their journals stay.
fn record(scratch: &Scratch, finalize: &str) {
    let mut command = scratch.replay(&two_process_streams());
    command.env("NCCL_OTF2_KEEP_JOURNAL", "1");
    command.env("NCCL_OTF2_FINALIZE", finalize);
    let _replayed = run(&mut command).with_code(0);
}

/// A job's directory as its processes left it before anything was written: journals and who recorded them.
fn copy_of_journals(from: &Path, to: &Path) {
    for part in entries(&from.join("parts")) {
        let copy = to.join("parts").join(part.file_name().expect("a name"));
        std::fs::create_dir_all(copy.join("journal")).expect("make");
        std::fs::copy(part.join("process.json"), copy.join("process.json")).expect("copy");
        for segment in entries(&part.join("journal")) {
            let name = segment.file_name().expect("a name");
            std::fs::copy(&segment, copy.join("journal").join(name)).expect("copy");
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", directory.display());
    paths
}

fn finalize(directory: &Path) {
    let mut command = std::process::Command::new(built::nccl_otf2());
    command.args(["finalize", "--keep-journal"]).arg(directory);
    let _finalized = run(&mut command).with_code(0);
}

/// Definitions and events of an archive by their names below its directory. The anchor is another matter: OTF2 puts
/// a random number into it.
fn trace_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut take = |path: PathBuf| {
        let name = path.strip_prefix(directory).expect("below").display().to_string();
        files.insert(name, std::fs::read(&path).expect("read"));
    };
    take(directory.join("traces.def"));
    entries(&directory.join("traces")).into_iter().for_each(&mut take);
    // Every location has events and definitions.
    assert!(files.len() > 2 * 20, "{:?}", files.keys());
    files
}

fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (trace_files(one), trace_files(other));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    let different: Vec<&String> =
        one.iter().filter(|(name, bytes)| other[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(different.is_empty(), "these differ: {different:?}");
}

#[test]
fn writing_twice_gives_the_same_bytes() {
    let scratch = Scratch::new();
    record(&scratch, "offline");
    let [one, other] = ["one", "other"].map(|name| scratch.path().join(name));
    copy_of_journals(&scratch.out(), &one);
    copy_of_journals(&scratch.out(), &other);
    finalize(&one);
    // In another second of the clock, and in two steps that begin with the other process.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for shard in ["1/2", "0/2"] {
        let mut command = std::process::Command::new(built::nccl_otf2());
        command.args(["finalize", "--keep-journal", "--shard", shard]).arg(&other);
        let _written = run(&mut command).with_code(0);
    }
    finalize(&other);
    assert_same(&one, &other);
}

#[test]
fn the_plugin_and_the_tool_write_the_same_bytes() {
    let scratch = Scratch::new();
    record(&scratch, "inline");
    let again = scratch.path().join("again");
    copy_of_journals(&scratch.out(), &again);
    finalize(&again);
    assert_same(&scratch.out(), &again);
}
