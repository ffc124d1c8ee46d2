//! The versions of NCCL's profiler interface and their properties, and NCCL's setting for groups of broadcasts
//! (`NCCL_ALLGATHERV_ENABLE`). The declaration of each kind of event in `event` says since which version it exists.

use std::fmt;

/// A release as in `ncclGetVersion`: 22809 is 2.28.9.
pub type Release = u32;

/// Upper bound of a range of releases that includes current and future ones.
pub const NO_LAST_RELEASE: Release = Release::MAX;

/// Properties of a version of the interface, apart from kinds of events.
#[derive(Clone, Copy, Debug)]
pub struct TableProperties {
    /// The first release that calls this table. The last one is in the series before the next table's.
    pub first: Release,
    /// `init` passes name, id, size and rank of the communicator, and a logger.
    pub describes_communicators: bool,
    /// A proxy operation enters a state when the proxy begins to work on it.
    pub begins_with_state: bool,
    /// An operation refers to its group in addition to its parent, the call. Otherwise the group is the parent, event
    /// types are one byte, nothing below a NULL parent is reported, and NULL contexts are finalized.
    pub has_parent_group: bool,
    /// The highest state number.
    pub last_state: u32,
    /// The oldest table whose structures are prefixes of this one's.
    pub compatible_from: Table,
}

macro_rules! tables {
    ($($name:ident = $number:literal $facts:tt)+) => {
        /// A version of the interface: NCCL calls a plugin through its table `ncclProfiler_v<N>`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the number is all that a version is")]
        pub enum Table { $($name = $number,)+ }

        impl Table {
            /// All versions, the newest last.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            /// The properties of this version.
            pub const fn properties(self) -> TableProperties {
                let (first, describes_communicators, begins_with_state, has_parent_group, last_state, compatible_from) =
                    match self { $(Self::$name => $facts,)+ };
                TableProperties { first, describes_communicators, begins_with_state, has_parent_group, last_state, compatible_from }
            }
        }
    };
}

// The columns are the fields of `TableProperties`, in order.
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
    /// The newest version that this project supports.
    pub const NEWEST: Self = {
        let [.., newest] = Self::ALL;
        newest
    };

    /// The table with this number. `None` for 0, which means no table, and for tables newer than [`Self::NEWEST`].
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.number() == number)
    }

    /// The N in `ncclProfiler_v<N>`.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The table that a release calls; `None` for releases without one.
    pub fn for_release(release: Release) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|table| table.first_of_series() <= release)
    }

    /// The first release of the series that began to call this table: 2.31.0 for 2.31.2.
    pub const fn first_of_series(self) -> Release {
        self.properties().first / 100 * 100
    }

    /// The last release that calls this table, published or not; [`NO_LAST_RELEASE`] for the newest.
    pub fn last(self) -> Release {
        Self::ALL.into_iter().find(|next| *next > self).map_or(NO_LAST_RELEASE, |next| next.first_of_series() - 1)
    }

    /// Whether this table of a plugin can be called with the arguments that NCCL passes to `called`.
    pub fn can_serve(self, called: Self) -> bool {
        self == called || self < called && self >= called.properties().compatible_from
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.number())
    }
}

// NCCL can fuse a group of broadcasts with several roots into one operation. The setting also decides whether
// broadcasts are reported.

/// The first release that fuses such a group into one operation. It reports no broadcast below the call, fused or not.
pub const FIRST_WITH_ALLGATHERV: Release = 22_902;

/// The variable that turns this off.
pub const ALLGATHERV_VARIABLE: &str = "NCCL_ALLGATHERV_ENABLE";

/// How broadcasts get into a recording, and what that costs.
pub const ALLGATHERV_WORKAROUND: &str = "NCCL_ALLGATHERV_ENABLE=0 makes NCCL report broadcasts; it then runs a group of them with several roots as separate operations, as up to 2.28";

/// Whether this value of [`ALLGATHERV_VARIABLE`] turns it off. A word is 0 only before 2.32, and not counted.
pub fn turns_allgatherv_off(value: &str) -> bool {
    let digits = value.trim();
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}
