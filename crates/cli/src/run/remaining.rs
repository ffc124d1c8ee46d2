//! Waits for processes that outlive the command: after a signal, a launcher's workers may end later than it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use archive::part_directories;
use journal::part::environment::JobEnvironment;
use journal::part::read_process;

use super::directory::is_one_of_many;
use super::request::Request;
use super::signals::Interrupted;
use crate::print;
use crate::units::plural;

/// How long to wait: processes that end because the command has ended do so soon.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before printing a note.
const QUIET: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(50);

/// Waits until no process of the run records on this host, but at most [`PATIENCE`], or until a signal arrives.
pub(super) fn wait(out: &Path, request: &Request, job: &JobEnvironment, interrupted: Option<Interrupted>) {
    let began = Instant::now();
    let mut is_noted = false;
    let is_interrupted = || interrupted.as_ref().is_some_and(Interrupted::is_signalled);
    while !request.no_finalize && !is_interrupted() && began.elapsed() < PATIENCE {
        let number = recording(out, job);
        if number == 0 {
            return;
        }
        if !is_noted && began.elapsed() > QUIET {
            is_noted = true;
            print::note(format_args!(
                "the command has ended; waits {} s at most for {} (Ctrl-C ends this)",
                PATIENCE.as_secs(),
                plural(
                    number,
                    "process that it left and that still records",
                    "processes that it left and that still record"
                )
            ));
        }
        thread::sleep(STEP);
    }
}

/// The number of recording processes of the run on this host; for one rank of a job, only its own.
fn recording(out: &Path, job: &JobEnvironment) -> u64 {
    let parts = part_directories(out).unwrap_or_default();
    let processes = parts.iter().map(|part| read_process(part).0);
    let is_ours = |rank| !is_one_of_many(job) || rank == job.rank;
    processes.filter(|process| is_ours(process.environment.rank) && process.is_recording()).count() as u64
}
