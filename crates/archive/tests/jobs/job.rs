//! A job to write: journals of processes that recorded.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use archive::{ANCHOR, WriteOptions, unify, write_part};
use journal::testing::{Process, ProcessIdentity};
use otf2::Archive;

pub(crate) const KEEP: WriteOptions =
    WriteOptions { deadline: None, keep_journal: true, whole: false, provisional: false, since_ticks: 0, level: None };

/// A job's directory, removed when the test ends.
pub(crate) struct Job(tempfile::TempDir);

impl Deref for Job {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn new_job() -> Job {
    Job(tempfile::tempdir().expect("a directory"))
}

/// Writes a part and removes its journal.
pub(crate) fn write(part: &Path) {
    write_part(part, &WriteOptions::default(), &()).expect("the part is written");
}

pub(crate) fn open(out: &Path) -> Archive {
    Archive::open(&out.join(ANCHOR)).expect("the archive opens")
}

/// The archive of the written parts.
pub(crate) fn unified(out: &Path) -> Archive {
    unify(out, &()).expect("the archive is written");
    open(out)
}

/// A job of two ranks on one host, recorded and not written.
pub(crate) fn record_two_ranks(out: &Path) -> Vec<PathBuf> {
    let parts = [0, 1].map(|rank| {
        let who = ProcessIdentity { rank, ranks: 2, in_environment: true };
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
    let traces = fs::read_dir(part.join("traces")).expect("there are event files");
    let mut files: Vec<PathBuf> = traces.map(|entry| entry.expect("readable").path()).collect();
    files.push(part.join("manifest"));
    files.sort();
    files.into_iter().map(|path| (path.display().to_string(), fs::read(path).expect("readable"))).collect()
}
