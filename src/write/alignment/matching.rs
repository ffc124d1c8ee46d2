//! From what the parts say to constraints between hosts: both ends of a message, all ranks of a collective.

use std::collections::BTreeMap;

use super::rows::Key;
use super::{Constraint, Reading};
use crate::write::job::Process;
use crate::write::place::{index, place};
use crate::write::sidecar::CommIdentity;

/// Of a collective on more hosts than this each is compared with the first only, not with all.
const MOST_ALL_TO_ALL: usize = 8;

/// An operation of the job: communicator and function by numbers of the job's own.
type JobKey = (u32, u32, u64, u64);

/// Numbers what all parts name alike.
#[derive(Default)]
struct Names<'a> {
    comms: BTreeMap<(CommIdentity, u64, u32, u32), u32>,
    functions: BTreeMap<&'a str, u32>,
}

impl<'a> Names<'a> {
    /// The job's key of a part's; `None` for a communicator that only this part knows.
    fn key(&mut self, process: &'a Process, key: Key) -> Option<JobKey> {
        let sidecar = &process.sidecar;
        let comm = sidecar.comms.get(index(key.comm))?;
        if comm.identity == CommIdentity::Part {
            return None;
        }
        let function = sidecar.traffic.functions.get(index(key.function))?;
        let next = place(self.comms.len());
        let identity = (comm.identity, comm.id, comm.ranks, comm.repetition);
        let comm = *self.comms.entry(identity).or_insert(next);
        let next = place(self.functions.len());
        let function = *self.functions.entry(function).or_insert(next);
        Some((comm, function, key.sequence, key.repetition))
    }
}

/// The constraints between hosts.
#[must_use]
pub fn constraints(processes: &[Process]) -> Vec<Constraint> {
    let mut names = Names::default();
    let mut constraints = passages(processes, &mut names);
    constraints.extend(messages(processes, &mut names));
    constraints
}

/// On one host: when the last of its ranks entered, and the first left.
#[derive(Clone, Copy)]
struct Presence {
    boot: u32,
    entered: Option<u64>,
    left: Option<u64>,
}

/// Nobody leaves before everybody who is waited for has entered.
fn passages<'a>(processes: &'a [Process], names: &mut Names<'a>) -> Vec<Constraint> {
    let mut rows: Vec<(JobKey, u32, u64, u64)> = Vec::new();
    for process in processes {
        for passage in &process.sidecar.traffic.passages {
            let Some(key) = names.key(process, passage.key) else {
                continue;
            };
            let reading = |ns| if ns == 0 { 0 } else { process.system_ns(ns) };
            let times = (reading(passage.entered_ns), reading(passage.left_ns));
            rows.push((key, process.boot, times.0, times.1));
        }
    }
    rows.sort_unstable();
    let mut constraints = Vec::new();
    for collective in rows.chunk_by(|a, b| a.0 == b.0) {
        let hosts: Vec<Presence> = collective
            .chunk_by(|a, b| a.1 == b.1)
            .map(|of_host| Presence {
                boot: of_host.first().map_or(0, |row| row.1),
                entered: of_host.iter().map(|row| row.2).filter(|&ns| ns > 0).max(),
                left: of_host.iter().map(|row| row.3).filter(|&ns| ns > 0).min(),
            })
            .collect();
        let centres = if hosts.len() > MOST_ALL_TO_ALL {
            1
        } else {
            hosts.len()
        };
        for (at, one) in hosts.iter().take(centres).enumerate() {
            for other in hosts.iter().skip(at + 1) {
                constraints.extend(between(*one, *other));
                constraints.extend(between(*other, *one));
            }
        }
    }
    constraints
}

fn between(enters: Presence, leaves: Presence) -> Option<Constraint> {
    Some(Constraint {
        earlier: Reading {
            boot: enters.boot,
            ns: enters.entered?,
        },
        later: Reading {
            boot: leaves.boot,
            ns: leaves.left?,
        },
    })
}

/// Nothing is received before it was sent.
fn messages<'a>(processes: &'a [Process], names: &mut Names<'a>) -> Vec<Constraint> {
    type Message = (JobKey, u32, u32, (i32, i32));
    let mut rows: Vec<(Message, bool, u32, u64)> = Vec::new();
    for process in processes {
        for end in &process.sidecar.traffic.ends {
            if let Some(key) = names.key(process, end.key) {
                let message = (key, end.from, end.to, end.part);
                rows.push((
                    message,
                    end.is_send,
                    process.boot,
                    process.system_ns(end.ns),
                ));
            }
        }
    }
    rows.sort_unstable();
    let mut constraints = Vec::new();
    for message in rows.chunk_by(|a, b| a.0 == b.0) {
        // Something that has more ends than two was not what it seemed.
        if let [(_, false, to, received), (_, true, from, sent)] = *message
            && from != to
        {
            constraints.push(Constraint {
                earlier: Reading {
                    boot: from,
                    ns: sent,
                },
                later: Reading {
                    boot: to,
                    ns: received,
                },
            });
        }
    }
    constraints
}
