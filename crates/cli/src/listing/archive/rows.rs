//! Whose a row is: of which rank of which communicator.

use std::collections::BTreeMap;

use otf2::LocationRef;

use super::super::filter::Filter;
use crate::archive::{Trace, members};

/// A rank of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    /// The communicator's name.
    pub(super) comm: String,
    /// The rank.
    pub(super) rank: u32,
    /// How many there are.
    pub(super) ranks: usize,
}

/// The rows of an archive that are somebody's; those of threads are nobody's.
pub(super) struct Rows {
    whose: BTreeMap<LocationRef, Whose>,
    comms: usize,
}

impl Rows {
    /// Members of communicators are told by the definitions, their other rows by the names that the writer gives
    /// (`docs/MAPPING.md` §2).
    pub(super) fn of(trace: &Trace) -> Self {
        let mut whose = BTreeMap::new();
        let mut beginnings = BTreeMap::new();
        for comm in trace.definitions.comms.keys() {
            let name = trace.comm_name(*comm);
            let locations = members(trace, *comm);
            for (rank, location) in (0..).zip(&locations) {
                let owner = Whose {
                    comm: name.clone(),
                    rank,
                    ranks: locations.len(),
                };
                beginnings.insert(
                    format!("NCCL {name} rank {rank}/{}", owner.ranks),
                    owner.clone(),
                );
                beginnings.insert(format!("NCCL {name} r{rank}"), owner.clone());
                beginnings.insert(format!("net {name} r{rank}"), owner.clone());
                whose.insert(*location, owner);
            }
        }
        for (location, _) in trace.locations() {
            if !whose.contains_key(&location)
                && let Some(owner) = owner(&trace.location_name(location), &beginnings)
            {
                whose.insert(location, owner.clone());
            }
        }
        Self {
            whose,
            comms: trace.definitions.comms.len(),
        }
    }

    /// Whether a row is wanted.
    pub(super) fn wanted(&self, location: LocationRef, filter: &Filter) -> bool {
        let Some(whose) = self.whose.get(&location) else {
            return filter.wants_comm("", None) && filter.wants_rank(None);
        };
        let (base, id) = identity(&whose.comm);
        (filter.wants_comm(&whose.comm, id) || filter.wants_comm(base, id))
            && filter.wants_rank(Some(whose.rank.into()))
    }

    /// Rank, and communicator where there are several; empty for nobody's.
    pub(super) fn text(&self, location: LocationRef) -> String {
        match self.whose.get(&location) {
            None => String::new(),
            Some(Whose { rank, ranks, .. }) if self.comms < 2 => format!("{rank}/{ranks}"),
            Some(Whose { comm, rank, ranks }) => format!("{comm} {rank}/{ranks}"),
        }
    }
}

/// The name without the number of its repetition, and the id where the name is one.
fn identity(name: &str) -> (&str, Option<u64>) {
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let base = match name.rsplit_once(" #") {
        Some((base, number)) if is_number(number) => base,
        _ => name,
    };
    let digits = base.strip_prefix("0x");
    (
        base,
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()),
    )
}

/// The longest beginning of a name that ends where a word ends.
fn owner<'a>(name: &str, beginnings: &'a BTreeMap<String, Whose>) -> Option<&'a Whose> {
    let mut ends: Vec<usize> = name.match_indices(' ').map(|(end, _)| end).collect();
    ends.push(name.len());
    let mut longest_first = ends.into_iter().rev();
    longest_first.find_map(|end| beginnings.get(name.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_the_longest_name() {
        let whose = |comm: &str, rank| Whose {
            comm: comm.to_owned(),
            rank,
            ranks: 2,
        };
        let beginnings = BTreeMap::from([
            ("net a r1".to_owned(), whose("a", 1)),
            ("net a r1 ch00 r1".to_owned(), whose("a r1 ch00", 1)),
        ]);
        let comm = |name: &str| owner(name, &beginnings).map(|owner| owner.comm.clone());
        assert_eq!(comm("net a r1 ch00 send→0 s2").as_deref(), Some("a"));
        assert_eq!(
            comm("net a r1 ch00 r1 ch00 send→0").as_deref(),
            Some("a r1 ch00")
        );
        assert_eq!(comm("net a r11 ch00 send→0"), None);
        assert_eq!(comm("API thread 7"), None);
    }

    #[test]
    fn names_without_a_name_are_ids() {
        assert_eq!(identity("0x00ff #2"), ("0x00ff", Some(255)));
        assert_eq!(identity("train #2"), ("train", None));
        assert_eq!(identity("train #two"), ("train #two", None));
    }
}
