//! The last operations of a rank, with their places in the order of the communicator.

use super::job::Call;

/// By what the place of a rank's operations in the order of the communicator is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// They were counted from the first.
    #[default]
    Counted,
    /// The beginning is not kept; NCCL's numbers say which are the same as those of other ranks.
    Aligned,
    /// Of what others have kept none is the same, and NCCL's numbers say which come first; not how many are between.
    Apart,
    /// The beginning is not kept, and nothing says where in the order they are.
    Unknown,
}

/// The last operations of a sequence, and how many there were before them.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// How many came before those in the list.
    pub(crate) before: u64,
    /// The last ones.
    pub(crate) list: Vec<Call>,
    /// Whether that number means anything.
    pub(crate) place: Place,
}

impl Tail {
    /// How many in all, of those that positions count.
    pub(crate) fn count(&self) -> u64 {
        self.before + self.list.len() as u64
    }

    /// Whether its positions are those of the communicator.
    pub(crate) fn is_placed(&self) -> bool {
        self.place != Place::Unknown
    }

    /// The one at a position, from 0; none if it is not there, not kept, or not known.
    pub(crate) fn at(&self, position: u64) -> Option<&Call> {
        let index = usize::try_from(position.checked_sub(self.before)?).ok()?;
        self.list.get(index).filter(|_| self.is_placed())
    }

    /// The first one that is seen not to have ended.
    pub(crate) fn first_open(&self) -> Option<&Call> {
        self.list.iter().find(|call| call.progress.stage.is_open())
    }
}
