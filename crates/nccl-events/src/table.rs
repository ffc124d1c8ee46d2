//! The versions of NCCL's profiler interface and what each has. The kinds of events are in `event`, with `since`.

use std::fmt;

/// A release as `ncclGetVersion` gives it: 22809 is 2.28.9.
pub type Release = u32;

/// Releases until now, and those to come.
pub const NOW: Release = Release::MAX;

/// What a version of the interface has beside kinds of events.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The first release that calls it; the last is in the series before the next table's.
    pub first: Release,
    /// `init` passes name, id, size and rank of the communicator, and a logger.
    pub describes_communicators: bool,
    /// A proxy operation enters a state when the proxy begins with it.
    pub begins_with_state: bool,
    /// An operation has its group beside its parent, the call. Without: the group is its parent, the type of an event
    /// is one byte, nothing below a NULL parent is reported, and NULL contexts are finalized.
    pub has_parent_group: bool,
    /// The highest number of a state.
    pub last_state: u32,
    /// The oldest table whose structures this one's begin with.
    pub compatible_from: Table,
}

macro_rules! tables {
    ($($name:ident = $number:literal $facts:tt)+) => {
        /// A version of the interface: NCCL calls a plugin by its table `ncclProfiler_v<N>`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the number is all that a version is")]
        pub enum Table { $($name = $number,)+ }

        impl Table {
            /// All versions, the newest last.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            /// What it has.
            pub const fn facts(self) -> Facts {
                let (first, describes_communicators, begins_with_state, has_parent_group, last_state, compatible_from) =
                    match self { $(Self::$name => $facts,)+ };
                Facts { first, describes_communicators, begins_with_state, has_parent_group, last_state, compatible_from }
            }
        }
    };
}

// The columns are the fields of `Facts`, in their order.
tables! {
    V1 = 1 (22_304, false, false, false, 18, Self::V1)
    V2 = 2 (22_403, false, false, false, 18, Self::V2)
    V3 = 3 (22_602, false, false, false, 22, Self::V3)
    V4 = 4 (22_703, true, true, false, 22, Self::V4)
    V5 = 5 (22_803, true, true, true, 24, Self::V4)
    V6 = 6 (22_902, true, true, true, 30, Self::V4)
    V7 = 7 (23_102, true, true, true, 31, Self::V4)
}

impl Table {
    /// The newest that this version of the project knows.
    pub const NEWEST: Self = {
        let [.., newest] = Self::ALL;
        newest
    };

    /// The table of this number. `None` for 0, which stands for no table, and for tables newer than [`Self::NEWEST`].
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.number() == number)
    }

    /// The number in its name.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The table that a release calls; `None` before there was one.
    pub fn of_release(release: Release) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|table| table.first_of_series() <= release)
    }

    /// The series of releases that began to call it: 2.31.0 for 2.31.2.
    pub const fn first_of_series(self) -> Release {
        self.facts().first / 100 * 100
    }

    /// The last release that calls it, published or not; [`NOW`] for the newest.
    pub fn last(self) -> Release {
        Self::ALL.into_iter().find(|next| *next > self).map_or(NOW, |next| next.first_of_series() - 1)
    }

    /// Whether a plugin's table can be called with what NCCL passes to `called`.
    pub fn can_serve(self, called: Self) -> bool {
        self == called || self < called && self >= called.facts().compatible_from
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.number())
    }
}
