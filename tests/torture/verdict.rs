//! What must be in the archive, and whether it is.

use std::path::{Path, PathBuf};

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::ledger::{self, Numbers};
use super::round::Dead;

/// `finalize` ends, the archives are whole, and each process's parts have what the process had done. A process that
/// begins when those before it are dead is another job: its directory is inside the one asked for.
pub(crate) fn nothing_is_missing(scratch: &Scratch, dead: &[Dead], about: &str) {
    let others = std::fs::read_dir(scratch.out().join("jobs")).into_iter().flatten();
    let others = others.map(|entry| entry.expect("an entry").path());
    let mut recorded: Vec<Numbers> = vec![Numbers::new(); dead.len()];
    for job in others.chain([scratch.out()]) {
        is_whole(scratch, &job, dead, &mut recorded, about);
    }
    for (process, recorded) in dead.iter().zip(&recorded) {
        compare(process, recorded, about);
    }
}

fn is_whole(scratch: &Scratch, job: &Path, dead: &[Dead], recorded: &mut [Numbers], about: &str) {
    let mut finalize = scratch.plain(built::nccl_otf2());
    finalize.args(["finalize", "--json"]).arg(job);
    let ended = run(&mut finalize);
    let mut found = 0;
    for (process, recorded) in dead.iter().zip(recorded.iter_mut()) {
        for part in parts_of(&job.join("parts"), process.pid) {
            found += 1;
            let text = std::fs::read(part.join("manifest"))
                .unwrap_or_else(|error| panic!("{about}\n{}: {error}\n{ended}", part.display()));
            let definitions: Value = serde_json::from_slice(&text).expect("JSON");
            assert_eq!(definitions["problems"], Value::Array(Vec::new()), "{about}");
            ledger::recorded(&definitions, recorded);
        }
    }
    // Nobody got so far as to make a journal.
    if found == 0 && ended.status.code() == Some(2) {
        return;
    }
    assert_eq!(ended.status.code(), Some(0), "{about}\n{ended}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(report["complete"], true, "{about}\n{ended}");
    let mut check = scratch.plain(built::nccl_otf2());
    check.args(["check", "--json"]).arg(job);
    let ended = run(&mut check);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    // Killed before any event: an archive without locations is a fault.
    if recorded.iter().all(Numbers::is_empty) && report["locations"] == 0 {
        return;
    }
    assert_eq!(report["faults"], 0, "{about}\n{ended}");
    assert_eq!(report["processes"], found, "{about}\n{ended}");
}

/// The parts of a process that recorded anything: one whose communicators end while others begin has two.
fn parts_of(parts: &Path, pid: u32) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parts) else {
        return Vec::new();
    };
    let middle = format!("-{pid}-");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.to_string_lossy().contains(&middle))
        // Killed before it had made its journal: it had recorded nothing.
        .filter(|path| path.join("done").exists())
        .collect()
}

/// Everything that had returned is recorded, and no more than one callback a thread beside.
fn compare(process: &Dead, recorded: &Numbers, about: &str) {
    for (what, returned) in &process.returned {
        let there = recorded.get(what).copied().unwrap_or(0);
        // The start of a control event is held back until something else comes.
        let held = if what == &("ProxyCtrl".to_owned(), "seen") { process.threads } else { 0 };
        assert!(there + held >= *returned, "{what:?}: {there} recorded of {returned} that had returned\n{about}");
    }
    let sum = |numbers: &Numbers| numbers.values().sum::<u64>();
    let (there, returned) = (sum(recorded), sum(&process.returned));
    assert!(
        there <= returned + process.threads,
        "{there} callbacks recorded, {returned} had returned on {} threads\n{about}",
        process.threads
    );
}
