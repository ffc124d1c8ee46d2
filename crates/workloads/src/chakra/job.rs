//! A job's data shared by the traces of all its ranks.

use analysis::read::Members;
use exports::{Result, Selection, Source, ranks};

use crate::operations::Calls;

pub(super) struct Job<'a> {
    pub(super) source: Source<'a>,
    pub(super) selection: Selection<'a>,
    pub(super) members: Members,
    pub(super) calls: Calls,
    pub(super) numbers: Vec<u32>,
    /// The ranks of each communicator; `None` if one of them was not recorded.
    pub(super) groups: Vec<Option<Vec<u32>>>,
}

impl<'a> Job<'a> {
    pub(super) fn of(source: &Source<'a>) -> Result<Self> {
        let selection = Selection::of(*source)?;
        let members = Members::of(source.trace);
        let calls = Calls::of(source, &selection)?;
        let numbers = ranks::numbers(&members);
        let communicators = (0..).zip(&members.communicators);
        let groups = communicators.map(|(number, _)| ranks::of_communicator(&members, &numbers, number)).collect();
        Ok(Self { source: *source, selection, members, calls, numbers, groups })
    }

    pub(super) fn world_size(&self) -> usize {
        ranks::world_size(&self.members, &self.numbers)
    }
}
