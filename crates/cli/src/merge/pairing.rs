//! Which of Score-P's processes each process of NCCL's archive is.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::nccl::{self, Nccl};
use super::scorep::{self, ScoreP};

/// A process as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// By its rank.
    Rank(u32),
    /// By its host and number there.
    Process(String, u64),
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((host, id)) = text.rsplit_once(':') {
            let id = id.parse().ok().filter(|_| !host.is_empty());
            let id = id.ok_or_else(|| format!("{text:?} is not HOST:PROCESS_ID"))?;
            return Ok(Self::Process(host.to_owned(), id));
        }
        let rank = text.parse();
        rank.map(Self::Rank)
            .map_err(|_| format!("{text:?} is neither a rank nor HOST:PROCESS_ID"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Process(host, id) => write!(f, "{host}:{id}"),
        }
    }
}

/// `NCCL=SCOREP` of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    nccl: Name,
    scorep: Name,
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (nccl, scorep) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not NCCL=SCOREP, as in 3=0 or host:4711=0"))?;
        Ok(Self {
            nccl: nccl.parse()?,
            scorep: scorep.parse()?,
        })
    }
}

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
    for wish in wishes {
        let is_meant = |process: &nccl::Process| match &wish.nccl {
            Name::Rank(rank) => process.rank == Some(*rank),
            Name::Process(host, id) => {
                is_same_host(&process.host, host) && process.process_id == Some(*id)
            }
        };
        let mut named = theirs.iter().filter(|(_, it)| is_named(it, &wish.scorep));
        let Some(scorep) = named.next() else {
            bail!("--map: there is no {} in Score-P's trace", wish.scorep);
        };
        if named.next().is_some() {
            bail!(
                "--map: several processes are {} of a trace of Score-P's; name them by HOST:PROCESS_ID",
                wish.scorep
            );
        }
        let mut is_there = false;
        for ((_, process), found) in ours.iter().zip(&mut found) {
            if is_meant(process) {
                *found = Some((scorep.0, By::Map));
                is_there = true;
            }
        }
        if !is_there {
            bail!("--map: there is no {} in NCCL's archive", wish.nccl);
        }
    }
    for ((_, process), found) in ours.iter().zip(&mut found) {
        if let (None, Some(id)) = (&found, process.process_id) {
            let mut candidates = theirs.iter().filter(|(_, it)| {
                it.process_id == Some(id) && is_same_host(&it.host, &process.host)
            });
            // Containers can have hosts and numbers in common: then they tell nothing.
            if let (Some(one), None) = (candidates.next(), candidates.next()) {
                *found = Some((one.0, By::Process));
            }
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
        if let (None, Some(rank)) = (&found, rank) {
            let mut candidates = theirs.iter().filter(|(_, it)| it.rank == rank);
            if let (Some(one), None) = (candidates.next(), candidates.next()) {
                // A process that ended one session and began another has two groups.
                let free = taken
                    .get(&one.0)
                    .is_none_or(|id| id.is_some() && *id == process.process_id);
                if free {
                    taken.insert(one.0, process.process_id);
                    *found = Some((one.0, by));
                }
            }
        }
    }
    refuse_two_for_one(ours, &found)?;
    Ok(found)
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

fn is_named(process: &scorep::Process, name: &Name) -> bool {
    match name {
        Name::Rank(rank) => process.rank == *rank,
        Name::Process(host, id) => {
            is_same_host(&process.host, host) && process.process_id == Some(*id)
        }
    }
}

/// One may have the domain and the other not.
fn is_same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    !a.is_empty() && (a == b || (a.contains('.') != b.contains('.') && short(a) == short(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

    fn theirs(rank: u32, host: &str, process_id: Option<u64>) -> scorep::Process {
        scorep::Process {
            group: LocationGroupRef::new(rank),
            node: SystemTreeNodeRef::new(0),
            host: host.to_owned(),
            process_id,
            rank,
            master: LocationRef::new(rank.into()),
        }
    }

    fn ours(rank: Option<u32>, host: &str, process_id: Option<u64>) -> nccl::Process {
        nccl::Process {
            group: LocationGroupRef::new(0),
            name: format!("{host}:{process_id:?}"),
            host: host.to_owned(),
            process_id,
            rank,
            rank_in_communicator: None,
            has_counter: true,
            anchors: Vec::new(),
            locations: 0,
            events: 0,
        }
    }

    fn found(
        theirs: &[scorep::Process],
        ours: &[nccl::Process],
        wishes: &[&str],
    ) -> Result<Vec<Option<(usize, By)>>, String> {
        let theirs: Vec<(Place, &scorep::Process)> =
            (0..).zip(theirs).map(|(n, it)| ((0, n), it)).collect();
        let ours: Vec<(Place, &nccl::Process)> =
            (0..).zip(ours).map(|(n, it)| ((0, n), it)).collect();
        let wishes: Result<Vec<Wish>, String> = wishes.iter().map(|wish| wish.parse()).collect();
        let is_of_all = |_| ours.len() == theirs.len();
        let found =
            matched(&theirs, &ours, &wishes?, &is_of_all).map_err(|error| error.to_string())?;
        let places = found
            .into_iter()
            .map(|it| it.map(|(place, by)| (place.1, by)));
        Ok(places.collect())
    }

    #[test]
    fn host_and_process_id_come_first_then_the_rank() {
        let theirs = [
            theirs(0, "a.cluster", Some(10)),
            theirs(1, "a.cluster", Some(11)),
            theirs(2, "b.cluster", Some(10)),
        ];
        // The launcher's ranks are not MPI's here: the process ids tell better.
        let by_process = [ours(Some(0), "a", Some(11)), ours(Some(1), "b", Some(10))];
        assert_eq!(
            found(&theirs, &by_process, &[]),
            Ok(vec![Some((1, By::Process)), Some((2, By::Process))])
        );
        let by_rank = [ours(Some(2), "x", Some(10)), ours(Some(7), "x", Some(11))];
        assert_eq!(
            found(&theirs, &by_rank, &[]),
            Ok(vec![Some((2, By::Rank)), None])
        );
        // Rank 1 has another process by its id already.
        let taken = [ours(None, "a", Some(11)), ours(Some(1), "x", Some(5))];
        assert_eq!(
            found(&theirs, &taken, &[]),
            Ok(vec![Some((1, By::Process)), None])
        );
    }

    #[test]
    fn the_user_knows_best() {
        let theirs = [theirs(0, "a", Some(10)), theirs(1, "a", Some(11))];
        let ours = [ours(Some(0), "a", Some(10)), ours(Some(1), "x", Some(3))];
        assert_eq!(
            found(&theirs, &ours, &["0=1", "x:3=a:10"]),
            Ok(vec![Some((1, By::Map)), Some((0, By::Map))])
        );
        for (wish, word) in [
            ("0=9", "no rank 9 in Score-P"),
            ("a:77=0", "no a:77 in NCCL"),
            ("0", "not NCCL=SCOREP"),
            ("x=0", "neither a rank"),
            ("a:b=0", "not HOST:PROCESS_ID"),
        ] {
            let error = found(&theirs, &ours, &[wish]).expect_err(wish);
            assert!(error.contains(word), "{wish}: {error}");
        }
    }

    #[test]
    fn sessions_of_a_process_are_one_process() {
        let theirs = [theirs(0, "a", None)];
        let sessions = [ours(Some(0), "a", Some(5)), ours(Some(0), "a", Some(5))];
        let both = Ok(vec![Some((0, By::Rank)), Some((0, By::Rank))]);
        assert_eq!(found(&theirs, &sessions, &[]), both);
        let others = [ours(Some(0), "a", Some(5)), ours(Some(0), "a", Some(6))];
        assert_eq!(
            found(&theirs, &others, &[]),
            Ok(vec![Some((0, By::Rank)), None])
        );
        let error = found(&theirs, &others, &["a:6=0"]);
        assert_eq!(error.map(|found| found[0]), Ok(None));
        let error = found(&theirs, &others, &["a:6=0", "a:5=0"]).expect_err("two for one");
        assert!(error.contains("would be the same process"), "{error}");
    }

    #[test]
    fn ranks_of_nccl_count_where_it_has_all_of_mpi() {
        let theirs = [theirs(0, "a", Some(1)), theirs(1, "a", Some(2))];
        let of = |rank| nccl::Process {
            rank_in_communicator: Some(rank),
            ..ours(None, "x", Some(7 + u64::from(rank)))
        };
        let both = Ok(vec![
            Some((1, By::Communicator)),
            Some((0, By::Communicator)),
        ]);
        assert_eq!(found(&theirs, &[of(1), of(0)], &[]), both);
        assert_eq!(found(&theirs, &[of(1)], &[]), Ok(vec![None]));
    }

    #[test]
    fn hosts_in_common_tell_nothing() {
        let theirs = [theirs(0, "c", Some(1)), theirs(1, "c", Some(1))];
        let ours = [ours(Some(1), "c", Some(1)), ours(None, "c", Some(1))];
        assert_eq!(
            found(&theirs, &ours, &[]),
            Ok(vec![Some((1, By::Rank)), None])
        );
    }
}
