//! Reads a [`Job`] from a job's directory: parts are read in parallel, then merged.
//!
//! Does not contact the processes and changes nothing: they may be running, hanging, or dead.

pub(super) mod align;
pub(super) mod archive;
mod doing;
mod doubts;
pub(super) mod flight;
mod operations;
mod part;
mod progress;
mod proxy;

use std::path::Path;

use analysis::in_parallel;
use job::communicators::{CommDefinition, Communicator, Communicators, Twice};
use job::life::is_blank;
use nccl_events::{MOST_RANKS, Progress};
use tables::communicators::CommIdentity;
use trace::part_directories;

use super::error::Error;
use super::job::{Comm, Job, Rank};
use align::align;
use part::{Moment, Part};

/// Reads the journals of the job in `directory`.
pub(crate) fn journals(directory: &Path, progress: &dyn Progress) -> Result<Job, Error> {
    let mut directories = part_directories(directory)?;
    directories.retain(|part| !is_blank(part));
    if directories.is_empty() {
        return Err(Error::NothingRecorded(directory.to_owned()));
    }
    let moment = Moment::now();
    progress.begin("journals", directories.len() as u64);
    let parts = in_parallel(directories.iter().enumerate(), |(number, directory)| {
        let part = Part::read(number, directory, &moment);
        progress.step();
        part
    });
    progress.end();
    let mut job = Job { now_ns: moment.pair.realtime_ns, ..Job::default() };
    let mut comms = Communicators::new(Twice::Newer);
    for (number, Part { process, claims }) in parts.into_iter().enumerate() {
        comms.add((number, &process.part), claims);
        job.processes.push(process);
    }
    job.comms = comms.into_key_order().map(comm).collect();
    job.number();
    Ok(job)
}

fn comm(known: Communicator<Rank>) -> Comm {
    let name = known.name();
    let CommDefinition { identity, id, ranks, ranks_seen, .. } = known.comm;
    let seen = ranks_seen.max(known.members.keys().next_back().map_or(0, |rank| rank.saturating_add(1)));
    let knows_size = (1..=MOST_RANKS).contains(&ranks);
    let mut comm = Comm {
        name,
        id: if identity == CommIdentity::Part { 0 } else { id },
        size: if knows_size { ranks } else { seen.min(MOST_RANKS) },
        knows_size,
        ranks: known.members,
        ..Comm::default()
    };
    align(&mut comm);
    comm
}
