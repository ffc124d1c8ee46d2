//! The functions that make and end communicators.

/// Whether a function of NCCL, by its full name, makes or ends a communicator.
pub fn is_of_communicators(name: &str) -> bool {
    name.starts_with("ncclComm")
}

/// Whether it ends one.
pub fn ends_communicator(name: &str) -> bool {
    matches!(name, "ncclCommDestroy" | "ncclCommAbort" | "ncclCommFinalize")
}
