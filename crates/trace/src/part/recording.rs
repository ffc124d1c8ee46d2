//! The input of a part: the journal of a process, and the transfers that its neighbours did for it.

use std::path::Path;

use super::manifest::Manifest;
use super::remote_transfers::from_neighbours;
use crate::error::Error;
use clocks::ticks::HostClock;
use journal::part::ProcessInfo;
use journal::part::is_done;
use journal::part::{JOURNAL, read_process};
use journal::reader::{Journal, Outcome};
use process_model::links::pxn::RemoteTransfers;
use process_model::reading::read_since;
use tables::Tables;

pub(super) struct Recording {
    pub(super) tables: Tables,
    pub(super) outcome: Outcome,
    pub(super) clock: HostClock,
    pub(super) process: ProcessInfo,
    pub(super) process_problem: String,
    /// What neighbours transferred for the process (PXN), and their parts.
    pub(super) remote: Vec<RemoteTransfers>,
    pub(super) remote_workers: Vec<String>,
}

impl Recording {
    /// Reads the journal of a part without the events before `since_ticks`, and the neighbours' transfers.
    pub(super) fn read(part: &Path, since_ticks: u64) -> Result<Self, Error> {
        let journal = Journal::open(&part.join(JOURNAL))?;
        let tick_source = journal.tick_source;
        let process_id = journal.process_id;
        let process_tag = journal.process_tag;
        let session_start_ns = journal.session_start_realtime_ns;
        let (builder, outcome) = read_since(journal, since_ticks)?;
        refuse_less(part, &outcome)?;
        let (mut tables, clock) = builder.finish_by_clock(&outcome.losses, &outcome.removed, process_tag, tick_source);
        if since_ticks > 0 {
            tables.ranges.keep_since(clock.nanoseconds(since_ticks));
        }
        tables.process_id = process_id;
        tables.process_tag = process_tag;
        let (mut process, process_problem) = read_process(part);
        let (remote_workers, remote) = from_neighbours(part, &process, process_tag);
        if process.pid == 0 {
            process.pid = process_id;
            process.session_start_realtime_ns = session_start_ns;
        }
        Ok(Self { tables, outcome, clock, process, process_problem, remote, remote_workers })
    }
}

/// Refuses to rewrite a part from fewer records than before: removing the journal may have been interrupted.
fn refuse_less(part: &Path, outcome: &Outcome) -> Result<(), Error> {
    match is_done(part).then(|| Manifest::read(part).ok()).flatten() {
        Some(before) if before.records > outcome.records => {
            Err(Error::Shrunk { path: part.join(JOURNAL), records: outcome.records, written: before.records })
        }
        _ => Ok(()),
    }
}
