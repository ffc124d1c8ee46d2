//! The functions that make and end communicators.

/// Whether a function of NCCL, by its full name, makes or ends a communicator.
pub fn is_of_communicators(name: &str) -> bool {
    const MAKE: [&str; 4] = ["Init", "Split", "Shrink", "Grow"];
    let makes = |rest: &str| MAKE.iter().any(|verb| rest.starts_with(verb));
    ends_communicator(name) || name.strip_prefix("ncclComm").is_some_and(makes)
}

/// Whether it ends one.
pub fn ends_communicator(name: &str) -> bool {
    matches!(name, "ncclCommDestroy" | "ncclCommAbort" | "ncclCommFinalize")
}
