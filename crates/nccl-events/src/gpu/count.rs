//! What is counted about GPUs: nothing is dropped without a number.

/// A counter; its place in [`super::GpuRecord::Counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GpuCount {
    /// Launches and copy-engine collectives that were to be timed.
    Launches,
    /// Of those: launched while the stream captured a graph, so that nothing ran.
    Captured,
    /// Of those: not timed since no prepared event was left.
    NoEventLeft,
    /// Of those: not timed since the driver, or CUPTI, refused.
    Refused,
    /// Of those: not timed since the thread may not call CUDA.
    OnCallbackThread,
    /// Of those: timed launches whose times were not known when recording ended.
    Unfinished,
    /// Kernel records of CUPTI's.
    Kernels,
    /// Of those: of no launch of NCCL's, and not written down.
    ForeignKernels,
    /// Of those: without times.
    KernelsWithoutTimes,
    /// Copy records of CUPTI's.
    Copies,
    /// Of those: of no collective of NCCL's, and not written down.
    ForeignCopies,
    /// Of those: without times.
    CopiesWithoutTimes,
    /// External ids whose launch had no kernel or copy record in time.
    Unmatched,
    /// Records that CUPTI says it dropped.
    DroppedByCupti,
    /// Records that could not be read.
    BadRecords,
    /// Buffers that another user of CUPTI's got in our place, or we in theirs.
    ForeignBuffers,
    /// Buffers that came back when recording was over, and were not read.
    LateBuffers,
    /// Buffers that CUPTI asked for and could not be given empty ones: their records are lost.
    NoBufferLeft,
    /// Records that were not written down since the journal had no room.
    NoRoom,
}

impl GpuCount {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All, in their order.
    pub const ALL: [Self; 19] = [
        Self::Launches,
        Self::Captured,
        Self::NoEventLeft,
        Self::Refused,
        Self::OnCallbackThread,
        Self::Unfinished,
        Self::Kernels,
        Self::ForeignKernels,
        Self::KernelsWithoutTimes,
        Self::Copies,
        Self::ForeignCopies,
        Self::CopiesWithoutTimes,
        Self::Unmatched,
        Self::DroppedByCupti,
        Self::BadRecords,
        Self::ForeignBuffers,
        Self::LateBuffers,
        Self::NoBufferLeft,
        Self::NoRoom,
    ];
}
