//! Which process is which, as the user gives it with `--map`.

use std::fmt;
use std::str::FromStr;

/// A process as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
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
        rank.map(Self::Rank).map_err(|_| format!("{text:?} is neither a rank nor HOST:PROCESS_ID"))
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
pub(in crate::merge) struct Mapping {
    pub(super) nccl: Name,
    pub(super) scorep: Name,
}

impl FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (nccl, scorep) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not NCCL=SCOREP, as in 3=0 or host:4711=0"))?;
        Ok(Self { nccl: nccl.parse()?, scorep: scorep.parse()? })
    }
}
