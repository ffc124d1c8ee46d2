//! Which of Score-P's processes each process of NCCL's archive is.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::nccl::{self, Nccl};
use super::scorep::{self, ScoreP};
pub(super) use map::Mapping;

mod index;
mod map;

use index::{Index, ProcessKey, is_same_host};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Map,
    /// Both have host and process id.
    Process,
    /// The launcher gave both the same rank.
    Rank,
    /// NCCL gave the rank that MPI gave, in a communicator as large as MPI_COMM_WORLD.
    Communicator,
}

impl By {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Map => "--map",
            Self::Process => "host and process id",
            Self::Rank => "rank",
            Self::Communicator => "rank in NCCL's communicator",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Which archive of NCCL's, and which process in it.
    pub(super) nccl: (usize, usize),
    /// Which archive of Score-P's, and which process in it.
    pub(super) scorep: (usize, usize),
    pub(super) by: By,
}

/// Pairs for all processes of NCCL's archives, in their order.
pub(super) fn pairs(scoreps: &[ScoreP], nccls: &[Nccl], map: &[Mapping]) -> Result<Vec<Pair>> {
    let theirs = numbered(scoreps.iter().map(|it| &*it.processes));
    let ours = numbered(nccls.iter().map(|it| &*it.processes));
    let all = theirs.len();
    let is_of_all = |archive: usize| {
        let nccl = nccls.get(archive);
        nccl.is_some_and(|nccl| nccl.largest_communicator == all)
    };
    let found = matched(&theirs, &ours, map, &is_of_all)?;
    let mut pairs = Vec::new();
    let mut without = Vec::new();
    for ((place, process), found) in ours.iter().zip(found) {
        match found {
            Some((scorep, by)) => pairs.push(Pair { nccl: *place, scorep, by }),
            None => without.push(process.name.clone()),
        }
    }
    if !without.is_empty() {
        bail!(
            "no process of Score-P's for {}: neither host and process id nor a rank that is left fit. Say which it is \
             with --map NCCL=SCOREP, each a rank or HOST:PROCESS_ID. Score-P has {}",
            listed(&without),
            listed(&theirs.iter().map(|(_, it)| it.name()).collect::<Vec<_>>())
        );
    }
    Ok(pairs)
}

/// The processes of several archives with their numbers.
fn numbered<'a, P>(archives: impl Iterator<Item = &'a [P]>) -> Vec<(ProcessNumber, &'a P)> {
    let archives = archives.enumerate();
    let processes = archives.flat_map(|(archive, processes)| {
        let processes = processes.iter().enumerate();
        processes.map(move |(number, process)| ((archive, number), process))
    });
    processes.collect()
}

/// The first of many.
fn listed(names: &[String]) -> String {
    const MOST: usize = 16;
    let mut text = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text.push_str(&format!(" and {} more", names.len() - MOST));
    }
    text
}

/// An archive, and a process in it.
type ProcessNumber = (usize, usize);

fn matched(
    theirs: &[(ProcessNumber, &scorep::Process)],
    ours: &[(ProcessNumber, &nccl::Process)],
    map: &[Mapping],
    is_of_all: &dyn Fn(usize) -> bool,
) -> Result<Vec<Option<(ProcessNumber, By)>>> {
    let mut found: Vec<Option<(ProcessNumber, By)>> = vec![None; ours.len()];
    let index = Index::of(theirs.iter().map(|(_, it)| ProcessKey {
        host: &it.host,
        process_id: it.process_id,
        rank: Some(it.rank),
    }));
    let only = |places: &[usize]| match places {
        [one] => theirs.get(*one).map(|(place, _)| *place),
        _ => None,
    };
    apply_map(theirs, ours, map, &index, &mut found)?;
    for ((_, process), found) in ours.iter().zip(&mut found) {
        if let (None, Some(id)) = (&found, process.process_id) {
            let candidates = index.process(&process.host, id);
            // Containers can have hosts and numbers in common: then they tell nothing.
            *found = only(&candidates).map(|place| (place, By::Process));
        }
    }
    let mut taken: BTreeMap<ProcessNumber, Option<u64>> = BTreeMap::new();
    for ((_, process), found) in ours.iter().zip(&found) {
        if let Some((place, _)) = found {
            taken.insert(*place, process.process_id);
        }
    }
    for ((place, process), found) in ours.iter().zip(&mut found) {
        let (rank, by) = match process.rank {
            Some(rank) => (Some(rank), By::Rank),
            None => {
                let rank = process.rank_in_communicator;
                (rank.filter(|_| is_of_all(place.0)), By::Communicator)
            }
        };
        if let (None, Some(rank)) = (&found, rank)
            && let Some(one) = only(index.rank(rank))
        {
            // A process that ended one session and began another has two groups.
            let free = taken.get(&one).is_none_or(|id| id.is_some() && *id == process.process_id);
            if free {
                taken.insert(one, process.process_id);
                *found = Some((one, by));
            }
        }
    }
    refuse_two_for_one(ours, &found)?;
    Ok(found)
}

/// The pairs that the user gives.
fn apply_map(
    theirs: &[(ProcessNumber, &scorep::Process)],
    ours: &[(ProcessNumber, &nccl::Process)],
    map: &[Mapping],
    index: &Index<'_>,
    found: &mut [Option<(ProcessNumber, By)>],
) -> Result<()> {
    if map.is_empty() {
        return Ok(());
    }
    let of_nccl =
        Index::of(ours.iter().map(|(_, it)| ProcessKey { host: &it.host, process_id: it.process_id, rank: it.rank }));
    for mapping in map {
        let places = index.named(&mapping.scorep);
        let named: Vec<ProcessNumber> =
            places.iter().filter_map(|place| theirs.get(*place)).map(|(place, _)| *place).collect();
        let scorep = match *named {
            [] => bail!("--map: there is no {} in Score-P's trace", mapping.scorep),
            [one] => one,
            _ => bail!(
                "--map: several processes are {} of a trace of Score-P's; name them by HOST:PROCESS_ID",
                mapping.scorep
            ),
        };
        let meant = of_nccl.named(&mapping.nccl);
        if meant.is_empty() {
            bail!("--map: there is no {} in NCCL's archive", mapping.nccl);
        }
        for place in meant {
            if let Some(found) = found.get_mut(place) {
                *found = Some((scorep, By::Map));
            }
        }
    }
    Ok(())
}

/// Several sessions of one process are in one process of Score-P's; several processes are not.
fn refuse_two_for_one(ours: &[(ProcessNumber, &nccl::Process)], found: &[Option<(ProcessNumber, By)>]) -> Result<()> {
    let mut known: BTreeMap<ProcessNumber, &nccl::Process> = BTreeMap::new();
    for ((_, process), found) in ours.iter().zip(found) {
        let Some((place, _)) = found else { continue };
        if let Some(other) = known.insert(*place, process) {
            let same = other.process_id.is_some()
                && other.process_id == process.process_id
                && is_same_host(&other.host, &process.host);
            if !same {
                bail!(
                    "{} and {} would be the same process of Score-P's; say which is which with --map",
                    other.name,
                    process.name
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
