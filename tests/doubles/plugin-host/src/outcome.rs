//! What a verb comes to.

pub(crate) enum Outcome {
    /// The plugin did all it should.
    Well,
    /// The plugin did something wrong, and it has been said.
    Wrong,
}
