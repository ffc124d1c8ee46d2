//! Copies this process's part into a snapshot. Runs on the maintenance thread.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::chain;
use crate::host::{logger, signals};
use journal::clock;
use journal::part::ProcessInfo;
use journal::part::{JOURNAL, PARTS, PROCESS, part_name};

use journal::host;
use journal::snapshots::{Request, standing};
use journal::writer::JournalWriter;

/// How often the maintenance thread checks for the file.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a new file is left alone: a tool may first make it and then set its time, which names the snapshot.
const SETTLING: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Maker {
    out: PathBuf,
    part: PathBuf,
    due: Instant,
    /// A new request, answered if it is unchanged at the next check.
    settling: Option<Request>,
    answered: Option<Request>,
    has_failed: bool,
}

impl Maker {
    pub(crate) fn new(out: &Path, part: &Path) -> Self {
        Self {
            out: out.to_owned(),
            part: part.to_owned(),
            due: Instant::now() + INTERVAL,
            settling: None,
            answered: None,
            has_failed: false,
        }
    }

    /// The request to answer now. The caller records a clock pair first.
    pub(crate) fn wanted(&mut self) -> Option<Request> {
        if signals::DUMP.take()
            && let Err(error) = Request::make(&self.out)
        {
            self.fail(&error);
        }
        if Instant::now() < self.due {
            return None;
        }
        self.due = Instant::now() + INTERVAL;
        // A directory that cannot be read now may be readable later.
        let request = Request::find(&self.out).ok().flatten()?;
        if self.answered.as_ref() == Some(&request) {
            return None;
        }
        if self.settling.as_ref() == Some(&request) {
            return Some(request);
        }
        self.due = Instant::now() + SETTLING;
        self.settling = Some(request);
        None
    }

    pub(crate) fn answer(&mut self, request: Request, writer: &JournalWriter) {
        if let Err(error) = self.put_part(&request, writer) {
            self.fail(&error);
        }
        let is_last = standing(&self.out, &request).is_ok_and(|standing| standing.awaited.is_empty());
        if is_last && let Err(error) = request.close(&self.out) {
            self.fail(&error);
        }
        self.answered = Some(request);
    }

    fn put_part(&self, request: &Request, writer: &JournalWriter) -> io::Result<()> {
        let directory = request.directory(&self.out);
        let parts = directory.join(PARTS);
        host::directories(&parts)?;
        let name = part_name(&self.part);
        let making = directory.join(format!(".making-{name}"));
        host::directory(&making)?;
        let made = self.copy(&making, writer);
        let placed = made.and_then(|()| std::fs::rename(&making, parts.join(&name)));
        placed.inspect_err(|_| {
            let _best_effort = std::fs::remove_dir_all(&making);
        })
    }

    fn copy(&self, into: &Path, writer: &JournalWriter) -> io::Result<()> {
        let journal = into.join(JOURNAL);
        host::directory(&journal)?;
        writer.copy_to(&journal)?;
        chain::report().write(into)?;
        let info = std::fs::read(self.part.join(PROCESS))?;
        let mut info: ProcessInfo = serde_json::from_slice(&info)?;
        info.snapshot_realtime_ns = clock::realtime_ns();
        host::write(&into.join(PROCESS), &serde_json::to_vec_pretty(&info)?)
    }

    fn fail(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            logger::warn(&format!(
                "no snapshot of this process in {}: {error}; recording continues",
                self.out.display()
            ));
        }
    }
}
