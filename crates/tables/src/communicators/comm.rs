//! A communicator as one process knows it, and a rank in a communicator.

use serde::{Deserialize, Serialize};

use journal::format::Symbol;

/// How a communicator is identified across processes, most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommIdentity {
    /// By NCCL's id and the number of ranks.
    Id,
    /// By the hash that its operations carry (v1–v3).
    Hash,
    /// Not identified: the communicator belongs to the process alone.
    Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    pub identity: CommIdentity,
    /// NCCL's id, the hash, or the context.
    pub comm_id: u64,
    /// Number of ranks; 0 if this process does not know.
    pub ranks: u32,
    /// Zero-based index among the communicators with this id and size.
    pub repetition: u32,
    /// The highest rank seen, plus one; 0 if NCCL states an impossible rank.
    pub ranks_seen: u32,
    pub name: Symbol,
    /// Number of hosts; 0 if not reported.
    pub nodes: u32,
}

impl CommIdentity {
    /// A communicator's name: the least of the users' names, else its id, with a suffix for repetitions. Processes may
    /// give different names, or unreadable ones, as NCCL does to some communicators that it splits.
    pub fn name<'a>(
        self,
        comm_id: u64,
        repetition: u32,
        given: impl IntoIterator<Item = &'a str>,
        part: &str,
    ) -> String {
        let is_readable = |name: &&str| name.chars().any(|letter| !letter.is_control() && !letter.is_whitespace());
        let base = match (given.into_iter().filter(is_readable).min(), self) {
            (Some(name), _) => name.to_owned(),
            (None, Self::Part) => format!("{part} {comm_id:#x}"),
            (None, _) => format!("{comm_id:#018x}"),
        };
        match repetition {
            0 => base,
            repetition => format!("{base} #{}", repetition + 1),
        }
    }
}

/// One rank of a communicator, which a context represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// An index in [`super::Comms::comms`].
    pub comm: u32,
    pub rank: u32,
    /// An index in [`super::Comms::gpus`].
    pub gpu: u32,
}

#[cfg(test)]
mod tests {
    use super::CommIdentity;

    #[test]
    fn a_name_that_nobody_can_read_is_none() {
        let name = |given: &[&str]| CommIdentity::Id.name(0xab, 0, given.iter().copied(), "part");
        for nothing in [&[][..], &[""], &["\u{1}"], &[" \t"]] {
            assert_eq!(name(nothing), "0x00000000000000ab", "{nothing:?}");
        }
        assert_eq!(name(&["\u{1}", "world", "a\u{1}b", ""]), "a\u{1}b");
        assert_eq!(CommIdentity::Part.name(7, 1, ["\u{1}"], "part"), "part 0x7 #2");
    }
}
