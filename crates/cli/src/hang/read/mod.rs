//! From a job's directory to a [`Job`]: the parts are read in parallel, then put together.
//!
//! Nothing is asked of the processes, and nothing is changed: they may run, hang, or be dead.

pub(super) mod align;
pub(super) mod archive;
pub(super) mod flight;
mod life;
mod operations;
mod part;
mod progress;
mod proxy;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use nccl_events::MOST_RANKS;
use rayon::prelude::*;
use trace::Progress;
use trace::part_directories;

use super::job::{Comm, Job};
use align::align;
use part::{CommKey, Moment, Part};

/// Reads the job in `directory`.
pub(crate) fn job(directory: &Path, progress: &dyn Progress) -> Result<Job> {
    let directories = part_directories(directory)?;
    if directories.is_empty() {
        bail!(
            "{}: no process has recorded anything here; is the plugin loaded (`nccl-otf2 doctor` and NCCL_DEBUG=INFO tell), and does it record in this directory (NCCL_OTF2_DIR)?",
            directory.display()
        );
    }
    let moment = Moment::now();
    progress.begin("journals", directories.len() as u64);
    let parts = directories.par_iter().enumerate().map(|(number, directory)| {
        let part = Part::read(number, directory, &moment);
        progress.step();
        part
    });
    let parts: Vec<Part> = parts.collect();
    progress.end();
    Ok(put_together(parts, moment.pair.realtime_ns))
}

fn put_together(parts: Vec<Part>, now_ns: u64) -> Job {
    let mut job = Job { now_ns, ..Job::default() };
    let mut comms: BTreeMap<CommKey, (Comm, Vec<String>)> = BTreeMap::new();
    for mut part in parts {
        for member in part.members {
            let size = member.key.size;
            let (comm, names) = comms.entry(member.key).or_insert_with_key(|key| {
                let knows_size = (1..=MOST_RANKS).contains(&size);
                let size = if knows_size { size } else { 0 };
                let comm = Comm {
                    name: String::new(),
                    id: key.shared_id(),
                    size,
                    knows_size,
                    has_all: false,
                    ranks: BTreeMap::new(),
                };
                (comm, Vec::new())
            });
            names.push(member.comm_name);
            if !comm.knows_size {
                let seen = member.ranks_seen.max(member.rank.saturating_add(1));
                comm.size = comm.size.max(seen.min(MOST_RANKS));
            }
            if size.max(member.rank) > MOST_RANKS {
                part.process.problems.push(format!(
                    "says that it is rank {} of {size} of a communicator, which cannot be: how many ranks that has is \
                     taken from those that recorded here",
                    member.rank
                ));
            }
            // A rank twice: an id that another job in this directory used again. The later part counts.
            comm.ranks.insert(member.rank, member.recorded);
        }
        job.processes.push(part.process);
    }
    for (key, (mut comm, names)) in comms {
        align(&mut comm);
        comm.name = key.name(names.iter().map(String::as_str));
        job.comms.push(comm);
    }
    job.number();
    job
}
