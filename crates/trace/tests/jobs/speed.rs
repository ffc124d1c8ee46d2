//! A long journal: a million events become a part in seconds and in bounded memory.

use journal::testing::{Process, Who};
use trace::{WriteOptions, write_part};

#[test]
#[ignore = "half a minute in a debug build; run it by hand in a release build"]
fn a_million_events() {
    let directory = tempfile::tempdir().expect("a directory");
    let who = Who { rank: 0, ranks: 2, in_environment: false };
    let mut process = Process::begin(directory.path(), who);
    // Ten events each.
    for sequence in 0..100_000 {
        process.all_reduce(sequence);
    }
    let part = process.end();
    let peak_kib = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        status.lines().find(|line| line.starts_with("VmHWM")).map(str::to_owned).unwrap_or_default()
    };
    println!("before writing: {}", peak_kib());
    let begin = std::time::Instant::now();
    let summary = write_part(&part, &WriteOptions::default(), &()).expect("written");
    println!("{} records, {} events in {:?}; {}", summary.records, summary.events, begin.elapsed(), peak_kib());
    assert!(summary.problems.is_empty(), "{:?}", summary.problems);
    assert!(summary.counts.kinds.iter().all(|(_, kind)| kind.adds_up()));
}
