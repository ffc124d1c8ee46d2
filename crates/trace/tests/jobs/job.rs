//! A job to write: journals of processes that recorded.

use std::fs;
use std::path::{Path, PathBuf};

use journal::testing::{Process, Who};
use trace::WriteOptions;

pub(crate) const KEEP: WriteOptions =
    WriteOptions { deadline: None, keep_journal: true, provisional: false, since_ticks: 0, archive: None };

/// A job of two ranks on one host, recorded and not written.
pub(crate) fn record_two_ranks(out: &Path) -> Vec<PathBuf> {
    let parts = [0, 1].map(|rank| {
        let who = Who { rank, ranks: 2, in_environment: true };
        let mut process = Process::begin(out, who);
        for sequence in 0..3 {
            process.all_reduce(sequence);
        }
        process.exchange();
        process.end()
    });
    parts.into()
}

/// The part's event files and manifest, by name.
pub(crate) fn contents(part: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<PathBuf> = fs::read_dir(part.join("traces"))
        .expect("there are event files")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.push(part.join("manifest"));
    files.sort();
    let read = |path: PathBuf| {
        let name = path.display().to_string();
        (name, fs::read(path).expect("readable"))
    };
    files.into_iter().map(read).collect()
}
