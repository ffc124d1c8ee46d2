//! Processes by what they can be found by.

use std::collections::BTreeMap;

use super::map::Name;

/// What is known of a process.
pub(super) struct ProcessKey<'a> {
    /// Its host, with or without the domain; empty where it is not known.
    pub(super) host: &'a str,
    pub(super) process_id: Option<u64>,
    pub(super) rank: Option<u32>,
}

/// Places in a list of processes.
#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    /// By host without the domain and number there: with the host.
    by_process: BTreeMap<(&'a str, u64), Vec<(&'a str, usize)>>,
    by_rank: BTreeMap<u32, Vec<usize>>,
}

impl<'a> Index<'a> {
    pub(super) fn of(processes: impl IntoIterator<Item = ProcessKey<'a>>) -> Self {
        let mut index = Self::default();
        for (place, key) in processes.into_iter().enumerate() {
            if let Some(id) = key.process_id {
                let of_id = index.by_process.entry((short(key.host), id)).or_default();
                of_id.push((key.host, place));
            }
            if let Some(rank) = key.rank {
                index.by_rank.entry(rank).or_default().push(place);
            }
        }
        index
    }

    /// Those with this number on this host.
    pub(super) fn process(&self, host: &str, id: u64) -> Vec<usize> {
        let of_id = self.by_process.get(&(short(host), id));
        let same = of_id.into_iter().flatten();
        same.filter(|(other, _)| is_same_host(other, host)).map(|(_, place)| *place).collect()
    }

    pub(super) fn rank(&self, rank: u32) -> &[usize] {
        self.by_rank.get(&rank).map_or(&[], Vec::as_slice)
    }

    /// Those that the user calls so.
    pub(super) fn named(&self, name: &Name) -> Vec<usize> {
        match name {
            Name::Rank(rank) => self.rank(*rank).to_vec(),
            Name::Process(host, id) => self.process(host, *id),
        }
    }
}

/// One may have the domain and the other not.
pub(super) fn is_same_host(a: &str, b: &str) -> bool {
    !a.is_empty() && (a == b || (a.contains('.') != b.contains('.') && short(a) == short(b)))
}

fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or_default()
}
