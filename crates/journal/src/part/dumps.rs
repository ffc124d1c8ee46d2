//! The files into which NCCL dumps its topology and its graphs, in a job's directory.
//!
//! `nccl-otf2 run` gives all processes one name of each, and NCCL expands nothing in it. So each process that has the
//! plugin puts its own key into the name, and a new number for each communicator.

use regular_files::{FNV_SEED, fnv};

/// Name of the directory of dumps in a job's directory.
pub const DUMPS: &str = "topology";
/// Dumps with this number are overwritten by those of later communicators.
const LAST: u32 = 99;
/// `-`, 16 digits of the key, `-`, two digits of the number, `.xml`
const TAIL: usize = 24;

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dump {
    /// The host: `NCCL_TOPO_DUMP_FILE`.
    System,
    /// The channels of a communicator: `NCCL_GRAPH_DUMP_FILE`.
    Graphs,
}

impl Dump {
    /// Both.
    pub const ALL: [Self; 2] = [Self::System, Self::Graphs];

    /// The variable that names the file.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::System => "NCCL_TOPO_DUMP_FILE",
            Self::Graphs => "NCCL_GRAPH_DUMP_FILE",
        }
    }

    /// The variable with the rank of a communicator that writes it.
    pub const fn rank_variable(self) -> &'static str {
        match self {
            Self::System => "NCCL_TOPO_DUMP_FILE_RANK",
            Self::Graphs => "NCCL_GRAPH_DUMP_FILE_RANK",
        }
    }

    const fn stem(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Graphs => "graphs",
        }
    }

    /// The name of a process's file, of its communicator of this number. The key 0 is any process's.
    pub fn file_name(self, key: u64, number: u32) -> String {
        format!("{}-{key:016x}-{:02}.xml", self.stem(), number.min(LAST))
    }

    /// Reads [`Self::file_name`]: what it is, of which process, with which number.
    pub fn of_file_name(name: &str) -> Option<(Self, u64, u32)> {
        let dump = Self::ALL.into_iter().find(|dump| name.starts_with(dump.stem()))?;
        let (key, number) = name.strip_prefix(dump.stem())?.strip_prefix('-')?.strip_suffix(".xml")?.split_once('-')?;
        let key = u64::from_str_radix(key, 16).ok()?;
        let number = number.parse().ok()?;
        (dump.file_name(key, number) == name).then_some((dump, key, number))
    }

    /// The path with another key and number; `None` if its file was not named by [`Self::file_name`].
    pub fn renamed(self, path: &str, key: u64, number: u32) -> Option<String> {
        let at = path.len().checked_sub(self.stem().len() + TAIL)?;
        let (directory, name) = path.split_at_checked(at)?;
        Self::of_file_name(name).filter(|(dump, ..)| *dump == self)?;
        Some(format!("{directory}{}", self.file_name(key, number)))
    }
}

/// The key of a part, by its name.
pub fn key(part: &str) -> u64 {
    fnv(FNV_SEED, part.as_bytes()).max(1)
}

/// Length of the value of a variable for a rank, so that every rank fits.
const RANK_DIGITS: usize = 10;

/// The value of a variable for a rank; `None` for a rank that no communicator has. NCCL skips spaces before a number.
pub fn rank(rank: Option<u32>) -> String {
    match rank {
        Some(rank) => format!("{rank:RANK_DIGITS$}"),
        None => format!("{:RANK_DIGITS$}", -9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_changed_in_place() {
        for dump in Dump::ALL {
            let path = format!("/job/topology/{}", dump.file_name(0, 0));
            let renamed = dump.renamed(&path, key("host-1-2"), 7).expect("named by us");
            assert_eq!(renamed.len(), path.len());
            let name = renamed.rsplit('/').next().expect("a name");
            assert_eq!(Dump::of_file_name(name), Some((dump, key("host-1-2"), 7)));
            assert_eq!(dump.renamed(&renamed, 0, 0), Some(path), "a child process has its parent's");
        }
        for foreign in ["", "topo.xml", "/x/graphs-1-2.xml", "/x/ä-0000000000000000-00.xml"] {
            assert_eq!(Dump::Graphs.renamed(foreign, 1, 1), None, "{foreign}");
        }
        assert_eq!((rank(Some(0)).len(), rank(Some(u32::MAX)).len(), rank(None).len()), (10, 10, 10));
        assert_eq!(Dump::Graphs.file_name(1, 100), Dump::Graphs.file_name(1, 99));
    }
}
