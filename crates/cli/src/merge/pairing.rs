//! Which of Score-P's processes each process of NCCL's archive is.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::nccl::{self, Nccl};
use super::scorep::{self, ScoreP};
use index::{Index, Who, is_same_host};
pub(super) use wish::Wish;

mod index;
mod wish;

/// How it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The user said so.
    Map,
    /// Both have host and process id.
    Process,
    /// The launcher gave both the same rank.
    Rank,
    /// NCCL gave the rank that MPI gave, in a communicator as large as MPI_COMM_WORLD.
    Communicator,
}

impl By {
    /// In words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Map => "--map",
            Self::Process => "host and process id",
            Self::Rank => "rank",
            Self::Communicator => "rank in NCCL's communicator",
        }
    }
}

/// One process in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Which archive of NCCL's, and which process in it.
    pub(super) nccl: (usize, usize),
    /// Which archive of Score-P's, and which process in it.
    pub(super) scorep: (usize, usize),
    /// How that is known.
    pub(super) by: By,
}

/// Pairs for all processes of NCCL's archives, in their order.
///
/// # Errors
///
/// When one has no process of Score-P's, or two different ones have the same.
pub(super) fn pairs(scoreps: &[ScoreP], nccls: &[Nccl], wishes: &[Wish]) -> Result<Vec<Pair>> {
    let theirs: Vec<((usize, usize), &scorep::Process)> = (0..)
        .zip(scoreps)
        .flat_map(|(archive, it)| {
            (0..)
                .zip(&it.processes)
                .map(move |(n, p)| ((archive, n), p))
        })
        .collect();
    let ours: Vec<((usize, usize), &nccl::Process)> = (0..)
        .zip(nccls)
        .flat_map(|(archive, it)| {
            (0..)
                .zip(&it.processes)
                .map(move |(n, p)| ((archive, n), p))
        })
        .collect();
    let all = theirs.len();
    let is_of_all = |archive: usize| {
        let nccl = nccls.get(archive);
        nccl.is_some_and(|nccl| nccl.largest_communicator == all)
    };
    let found = matched(&theirs, &ours, wishes, &is_of_all)?;
    let mut pairs = Vec::new();
    let mut without = Vec::new();
    for ((place, process), found) in ours.iter().zip(found) {
        match found {
            Some((scorep, by)) => pairs.push(Pair {
                nccl: *place,
                scorep,
                by,
            }),
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

/// The first of many.
fn listed(names: &[String]) -> String {
    const MOST: usize = 16;
    let mut text = names
        .iter()
        .take(MOST)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST {
        text.push_str(&format!(" and {} more", names.len() - MOST));
    }
    text
}

type Place = (usize, usize);

fn matched(
    theirs: &[(Place, &scorep::Process)],
    ours: &[(Place, &nccl::Process)],
    wishes: &[Wish],
    is_of_all: &dyn Fn(usize) -> bool,
) -> Result<Vec<Option<(Place, By)>>> {
    let mut found: Vec<Option<(Place, By)>> = vec![None; ours.len()];
    let index = Index::of(theirs.iter().map(|(_, it)| Who {
        host: &it.host,
        process_id: it.process_id,
        rank: Some(it.rank),
    }));
    let only = |places: &[usize]| match places {
        [one] => theirs.get(*one).map(|(place, _)| *place),
        _ => None,
    };
    say_wishes(theirs, ours, wishes, &index, &mut found)?;
    for ((_, process), found) in ours.iter().zip(&mut found) {
        if let (None, Some(id)) = (&found, process.process_id) {
            let candidates = index.process(&process.host, id);
            // Containers can have hosts and numbers in common: then they tell nothing.
            *found = only(&candidates).map(|place| (place, By::Process));
        }
    }
    let mut taken: BTreeMap<Place, Option<u64>> = BTreeMap::new();
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
            let free = taken
                .get(&one)
                .is_none_or(|id| id.is_some() && *id == process.process_id);
            if free {
                taken.insert(one, process.process_id);
                *found = Some((one, by));
            }
        }
    }
    refuse_two_for_one(ours, &found)?;
    Ok(found)
}

/// What the user says.
fn say_wishes(
    theirs: &[(Place, &scorep::Process)],
    ours: &[(Place, &nccl::Process)],
    wishes: &[Wish],
    index: &Index<'_>,
    found: &mut [Option<(Place, By)>],
) -> Result<()> {
    if wishes.is_empty() {
        return Ok(());
    }
    let of_nccl = Index::of(ours.iter().map(|(_, it)| Who {
        host: &it.host,
        process_id: it.process_id,
        rank: it.rank,
    }));
    for wish in wishes {
        let places = index.named(&wish.scorep);
        let named: Vec<Place> = places
            .iter()
            .filter_map(|place| theirs.get(*place))
            .map(|(place, _)| *place)
            .collect();
        let scorep = match *named {
            [] => bail!("--map: there is no {} in Score-P's trace", wish.scorep),
            [one] => one,
            _ => bail!(
                "--map: several processes are {} of a trace of Score-P's; name them by HOST:PROCESS_ID",
                wish.scorep
            ),
        };
        let meant = of_nccl.named(&wish.nccl);
        if meant.is_empty() {
            bail!("--map: there is no {} in NCCL's archive", wish.nccl);
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
fn refuse_two_for_one(
    ours: &[(Place, &nccl::Process)],
    found: &[Option<(Place, By)>],
) -> Result<()> {
    let mut known: BTreeMap<Place, &nccl::Process> = BTreeMap::new();
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
