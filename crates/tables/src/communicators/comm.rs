//! What a communicator is as a process knows it, and a rank in one.

use serde::{Deserialize, Serialize};

use journal::format::record::Symbol;

/// How a communicator is identified across processes, the surest way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommIdentity {
    /// By NCCL's id and the number of ranks.
    Id,
    /// By the hash its operations carry (v1–v3).
    Hash,
    /// Not at all: it is the process's own.
    Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    pub identity: CommIdentity,
    /// NCCL's id, the hash, or the context.
    pub comm_id: u64,
    /// Number of ranks; 0 where this process does not know.
    pub ranks: u32,
    /// Zero-based index among those with this id and size.
    pub repetition: u32,
    /// One more than the highest rank seen in it.
    pub ranks_seen: u32,
    pub name: Symbol,
    /// Number of hosts; 0 where not given.
    pub nodes: u32,
}

impl CommIdentity {
    /// What a communicator is called: the user's name, else its id; a repetition is told apart. Processes may have
    /// given different names, or none that can be read, as NCCL does to some that it splits.
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

/// One rank of a communicator: what a context stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// An index in [`super::Comms::comms`].
    pub comm: u32,
    pub rank: u32,
    /// Which of this process's GPUs: an index in [`super::Comms::gpus`].
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
