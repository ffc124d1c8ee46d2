//! Who hears how far long work is: writing archives, reading them. Nobody, unless a caller says so.

/// Receives the progress of some work. All working threads call it.
pub trait Progress: Send + Sync {
    /// Something that can be shown begins; `steps` says how many [`Progress::step`] calls follow.
    fn begin(&self, what: &str, steps: u64) {
        let _ = (what, steps);
    }

    /// One step is done.
    fn step(&self) {}

    /// The work is done.
    fn end(&self) {}

    /// Something that a person should know.
    fn remark(&self, remark: &str) {
        let _ = remark;
    }
}

impl Progress for () {}
