//! Counters about GPUs: nothing is dropped without being counted. `docs/REFERENCE.md` §7 describes the counters.

macro_rules! counts {
    ($($count:ident,)+) => {
        /// A counter, whose value is its index in [`super::GpuRecord::Counts`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "`docs/REFERENCE.md` describes them")]
        pub enum GpuCount {
            $($count,)+
        }

        impl GpuCount {
            /// Number of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// All counters, in order.
            pub const ALL: [Self; [$(stringify!($count),)+].len()] = [$(Self::$count,)+];
        }
    };
}

counts! {
    Launches,
    Captured,
    NoEventLeft,
    Refused,
    OnCallbackThread,
    Unfinished,
    Kernels,
    ForeignKernels,
    KernelsWithoutTimes,
    Copies,
    ForeignCopies,
    CopiesWithoutTimes,
    Unmatched,
    DroppedByCupti,
    BadRecords,
    ForeignBuffers,
    LateBuffers,
    NoBufferLeft,
    NoRoom,
}
