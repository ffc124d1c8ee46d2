//! Reporting progress of long work, such as writing or reading archives. `()` ignores all reports.

/// Receives the progress of some work. All working threads may call it.
pub trait Progress: Send + Sync {
    /// Begins a phase with a name to show. `steps` calls of [`Progress::step`] follow.
    fn begin(&self, what: &str, steps: u64) {
        let _ = (what, steps);
    }

    /// One step is done.
    fn step(&self) {}

    /// The work is done.
    fn end(&self) {}

    /// Reports something that a user should know.
    fn remark(&self, remark: &str) {
        let _ = remark;
    }
}

impl Progress for () {}
