//! Exports what was recorded since a profile began as an XSpace. The journal is only read: it becomes an archive in a
//! temporary directory, which is exported like any other archive.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use journal::part::{JOURNAL, PARTS, PROCESS, part_name};
use journal::{clock, host};
use rayon::ThreadPoolBuilder;
use trace::{WriteOptions, unify, write_part};

const DEADLINE: Duration = Duration::from_secs(60);
/// The most cores taken from the job during the export.
const THREADS: usize = 4;

pub(super) struct Begin {
    pub(super) ticks: u64,
    pub(super) realtime_ns: u64,
}

/// The planes of a session since a profile began; empty without events.
pub(super) fn planes(part: &Path, begin: &Begin) -> Result<Vec<u8>, String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    // The pool's threads have ended when this returns, and receive none of the program's signals.
    let made = ThreadPoolBuilder::new()
        .num_threads(cores.min(THREADS))
        .build_scoped(|thread| host::without_signals(|| thread.run()), |pool| pool.install(|| exported(part, begin)));
    made.map_err(|error| error.to_string())?
}

fn exported(part: &Path, begin: &Begin) -> Result<Vec<u8>, String> {
    let end_ns = clock::realtime_ns();
    let mut builder = tempfile::Builder::new();
    let scratch = builder.prefix("nccl-otf2-").permissions(Permissions::from_mode(0o700)).tempdir();
    let scratch = scratch.map_err(|error| format!("{}: {error} (TMPDIR)", std::env::temp_dir().display()))?;
    let copy = scratch.path().join(PARTS).join(part_name(part));
    refer(part, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let options = WriteOptions {
        deadline: Instant::now().checked_add(DEADLINE),
        provisional: true,
        since_ticks: begin.ticks,
        ..WriteOptions::default()
    };
    write_part(&copy, &options, &()).map_err(|error| error.to_string())?;
    let archive = unify(scratch.path(), &()).map_err(|error| error.to_string())?;
    exports::xplane::planes(&archive.anchor, begin.realtime_ns, end_ns).map_err(|error| error.to_string())
}

fn refer(part: &Path, copy: &Path) -> std::io::Result<()> {
    host::directories(copy)?;
    symlink(fs::canonicalize(part.join(JOURNAL))?, copy.join(JOURNAL))?;
    host::write(&copy.join(PROCESS), &fs::read(part.join(PROCESS))?)
}
