//! The mistakes, one at a time.

use std::sync::LazyLock;

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// A mistake that profiler plugins made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault {
            $($(#[$doc])* $variant,)*
        }

        const NAMES: &[(&str, Fault)] = &[$(($name, Fault::$variant),)*];
    };
}

faults! {
    /// Believes that every context in a descriptor is one of its own, and alive.
    FollowContext "follow-context",
    /// Believes that every parent in a descriptor is one of its own, and alive.
    FollowParent "follow-parent",
    /// Frees an event when it stops, though NCCL still knows it.
    FreeOnStop "free-on-stop",
    /// Frees the context and its events in finalize, though events still come.
    FreeOnFinalize "free-on-finalize",
    /// Follows every handle, NULL too.
    FollowNull "follow-null",
    /// Returns without a word where it records nothing, so NCCL's handle stays what it was.
    LateHandle "late-handle",
    /// Says NULL when more than four events are open.
    SmallPool "small-pool",
    /// Frees a group by its last proxy operation only.
    FreeByChildren "free-by-children",
    /// Counts what was stopped.
    CountStopped "count-stopped",
    /// Fails init when it cannot make its folder.
    FailInit "fail-init",
    /// Has one context for all communicators.
    OneContext "one-context",
    /// Decides anew in each init what it wants of the process.
    MaskPerInit "mask-per-init",
    /// Believes the descriptor's rank.
    TrustRank "trust-rank",
    /// Has an array of 64 channels.
    SixtyFourChannels "sixty-four-channels",
    /// Runs over as many channels as a point-to-point descriptor says.
    TrustChannelCount "trust-channel-count",
    /// Subtracts whatever the GPU's clock said.
    TrustGpuTime "trust-gpu-time",
    /// Knows all the kinds that there are.
    AssertKnown "assert-known",
    /// Reads all of version 7 whoever calls.
    ReadVersion7 "read-version-7",
    /// Keeps the kind in one byte of a structure and reads it as eight.
    ByteHeader "byte-header",
    /// Keeps the pointer to the communicator's name.
    KeepName "keep-name",
    /// Logs by NCCL's logger when no communicator is left.
    LogLate "log-late",
}

static CHOSEN: LazyLock<Option<Fault>> = LazyLock::new(|| {
    let asked = std::env::var("NAIVE")
        .ok()
        .filter(|name| !name.is_empty())?;
    let found = NAMES.iter().find(|(name, _)| *name == asked);
    // A test with a misspelt fault would show nothing.
    Some(
        found
            .unwrap_or_else(|| panic!("NAIVE={asked}: there is no such fault"))
            .1,
    )
});

/// Whether this is the mistake to make.
pub(crate) fn is(fault: Fault) -> bool {
    *CHOSEN == Some(fault)
}
