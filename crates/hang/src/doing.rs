//! What a program does, by its NVTX ranges: the NCCL call that it is in, and its own ranges around the call.

use std::collections::BTreeMap;

use nccl_events::archive::path_of_ranges;
use nccl_events::range::{RangeField, RangeFields};

/// What one thread is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing {
    /// The innermost open call of NCCL.
    pub(crate) call: Option<NcclCall>,
    /// The program's open ranges, outermost first; those around the call if there is one.
    pub(crate) ranges: Vec<OpenRange>,
    /// The steps that are over.
    pub(crate) taken: BTreeMap<Step, Taken>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRange {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) since_ns: u64,
}

/// A call of NCCL that has not returned.
#[derive(Clone, Debug, Default)]
pub(crate) struct NcclCall {
    /// Such as `ncclCommSplit`. A group that makes communicators is named after the calls in it.
    pub(crate) name: String,
    pub(crate) since_ns: u64,
    /// The arguments, as far as NCCL has stated them.
    pub(crate) fields: RangeFields,
}

impl NcclCall {
    /// A number among the arguments; `None` if NCCL has not stated it.
    pub(crate) fn number(&self, field: RangeField) -> Option<u64> {
        self.fields.get(field).filter(|id| *id != 0 || !matches!(field, RangeField::CommId | RangeField::ParentCommId))
    }

    pub(crate) fn step(&self) -> Option<Step> {
        Step::of(&self.name)
    }
}

/// The steps of one kind that a thread has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) times: u64,
    pub(crate) last_ns: u64,
}

impl Doing {
    /// The names of the program's ranges: `train_step > load_batch`; `None` without ranges.
    pub(crate) fn path(&self) -> Option<String> {
        (!self.ranges.is_empty()).then(|| path_of_ranges(self.ranges.iter().map(|range| &range.name)))
    }

    pub(crate) fn convert_times(&mut self, realtime: impl Fn(u64) -> u64) {
        let call = self.call.iter_mut().map(|call| &mut call.since_ns);
        let ranges = self.ranges.iter_mut().map(|range| &mut range.since_ns);
        let taken = self.taken.values_mut().map(|taken| &mut taken.last_ns);
        call.chain(ranges).chain(taken).for_each(|ns| *ns = realtime(*ns));
    }
}

/// A step in the life of a communicator that its ranks take together: a call that waits for the others' calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Init,
    Split,
    Shrink,
    Grow,
    /// Finalize or destroy: destroying a communicator finalizes it.
    End,
}

impl Step {
    /// The step that a call of NCCL takes. `ncclCommAbort` and `ncclCommRevoke` wait for nobody.
    pub(crate) fn of(call: &str) -> Option<Self> {
        match call {
            "ncclCommInitRank" | "ncclCommInitRankConfig" | "ncclCommInitRankScalable" | "ncclCommInitAll" => {
                Some(Self::Init)
            }
            "ncclCommSplit" => Some(Self::Split),
            "ncclCommShrink" => Some(Self::Shrink),
            "ncclCommGrow" => Some(Self::Grow),
            "ncclCommFinalize" | "ncclCommDestroy" => Some(Self::End),
            _ => None,
        }
    }

    /// Whether the call waits for all ranks of the communicator. A shrink leaves ranks out, and nothing says which. The
    /// end waits at most for ranks of the same host, and not with all transports.
    pub(crate) const fn is_of_all(self) -> bool {
        matches!(self, Self::Split)
    }
}
