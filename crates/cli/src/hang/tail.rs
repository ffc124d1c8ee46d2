//! The last operations of a rank in one sequence of its communicator.

use super::operation::Call;

/// How the positions of a rank's operations in the order of the communicator are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positions {
    /// They were counted from the first.
    #[default]
    Counted,
    /// The beginning is not kept; NCCL's numbers say which operations are the same as those of other ranks.
    Aligned,
    /// No kept operation is the same as one of others; NCCL's numbers say which come first, not how many lie between.
    Ordered,
    /// The beginning is not kept, and nothing gives the positions.
    Unknown,
}

/// The last operations of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// How many came before those in the list.
    pub(crate) before: u64,
    pub(crate) list: Vec<Call>,
    pub(crate) positions: Positions,
}

impl Tail {
    /// How many in all, of those that positions count.
    pub(crate) fn count(&self) -> u64 {
        self.before + self.list.len() as u64
    }

    /// Whether its positions are those of the communicator.
    pub(crate) fn has_positions(&self) -> bool {
        self.positions != Positions::Unknown
    }

    /// The operation at a position, from 0; none if it is not there, not kept, or its position is unknown.
    pub(crate) fn at(&self, position: u64) -> Option<&Call> {
        let index = usize::try_from(position.checked_sub(self.before)?).ok()?;
        self.list.get(index).filter(|_| self.has_positions())
    }

    /// The first operation that is known not to have ended.
    pub(crate) fn first_open(&self) -> Option<&Call> {
        self.list.iter().find(|call| call.progress.stage.is_open())
    }
}
