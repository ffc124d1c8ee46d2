//! What became of a verdict.

/// What became of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Found,
    Cleared,
}
